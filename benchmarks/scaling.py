#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What several ranks cost coll_train: on one host, or by a network.

    benchmarks/scaling.py [--build build] [--nets resnet18:16,vgg16:4] [--ranks 2]
        [--lab "--hosts 4 --rate 1Gbit"] [--rounds 5] [--seconds 10]
        [--budget 600] [--json FILE]

On one host three ways take turns: one rank; a job of several, each with as many
images; and as many jobs of one rank each at the same time, bound to the same cores.
These share memory and clock but exchange nothing, so what they lose the machine
takes; so it does what they would have lost had each step waited for the slowest of
them, as ranks do ("jobs in step": the k-th steps of all jobs count as the longest).
At last they compute as long in registers only and meet after each step (coll_arithmetic):
what that loses, the processors lose by not being equally fast all the time.
Efficiency is images a second over those of one rank times the number of ranks;
exchange is the part of a step of the job in which even the slowest rank does nothing but
communicate (with more than two ranks about that: of the others the log has the mean).
Printed is a table in Markdown, medians of the rounds with the smallest and the largest.
Two ranks on two cores should have 0.95 at least, or what two jobs in step have.

With --lab it is hosts that tests/netlab/netlab imitates with these options, a rank each
(root only): the sum of all gradients as one vector (coll_tensors), with nothing else
going on; a step of jobs of one rank each at the same time, and of that the backward pass
(--profile); and a step of the job. What the latter takes longer is exposed
communication, which should be at most what the backward pass cannot hide,
max(0, sum - backward), and a tenth of computing. Hosts that share processors are not
done at the same time, and jobs that exchange nothing need not wait for the slowest:
"without waiting" is what such a step spends on exchange, as above.

Of each run the second half of the steps counts. After --budget seconds no round
begins; 0: a try, one round of a few steps. Status: 0 measured, 77 there can be no such
hosts here, 1 something failed.
"""
import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import compare_torch  # noqa: E402
from compare_torch import (  # noqa: E402
    LAB_LEAST, Failed, digits, in_lab, run, settled_mean)
sys.path.insert(0, os.path.join(compare_torch.HERE, 'papers'))
import nets  # noqa: E402

HOST_NETS, LAB_NETS = 'resnet18:16,vgg16:4', 'lenet:64,resnet20:32'
ENV = {'COLL_STORE': 'off', 'OPENBLAS_NUM_THREADS': '1'}
TRIED, LEAST, MOST = 4, 8, 1000  # steps
# Started as ranks are, but each is a job by itself, with a log of its own.
ALONE = ('log=$1.$COLL_RANK; shift; unset COLL_RANK COLL_NRANKS COLL_ROOT '
         'COLL_JOB_KEY COLL_TOLD; exec "$@" --log "$log"')
EXCHANGE = ('inside', 'outside')
SHARE = 0.1  # of computing, that may be exposed besides


def start(o, ranks, words):
    """What rank 0 prints."""
    if o.lab is None:
        return run([os.path.join(o.build, 'collrun'), '-n', str(ranks),
                    *words], **ENV)[0]
    with tempfile.TemporaryDirectory() as folder:
        return in_lab(o, folder, ['--', *words], ENV)[0]


def settled_rows(log):
    with open(log, encoding='utf-8') as file:
        rows = [row for row in map(json.loads, file) if 'step_ms' in row]
    return rows[len(rows) // 2:]


def steps_ms(log):
    return [row['step_ms'] for row in settled_rows(log)]


def step_ms(log):
    return settled_mean(steps_ms(log))


def exchange_ms(row):
    """Without waiting for the slowest rank."""
    spent = sum(row['parts_ms'][part] for part in EXCHANGE)
    return spent - (row['slowest_ms'] if row.get('slowest_rank') else 0)


def exchange_of(log):
    """Its part of a step."""
    return settled_mean(list(map(exchange_ms, settled_rows(log)))) / step_ms(log)


def train(o, net, batch, steps, ranks, alone=False, profile=False):
    """Milliseconds of the steps that count, of each job, what the first printed,
    and the part of a step that is exchange."""
    images = 4 * batch * (1 if alone else ranks)
    shape = nets.images(compare_torch.text_of(net))
    command = [os.path.join(o.build, 'coll_train'), '--net', net, '--data',
               f'synthetic:{images}x{shape}', '--epochs', str(steps),
               '--steps', str(steps), '--batch', str(batch), '--lr', '0.0001',
               '--momentum', '0.9', *(['--profile'] if profile else [])]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        words = (['sh', '-c', ALONE, 'sh', log, *command] if alone
                 else [*command, '--log', log])
        out = start(o, ranks, words)
        if alone:
            return ([steps_ms(f'{log}.{rank}') for rank in range(ranks)],
                    out, None)
        return [steps_ms(log)], out, exchange_of(log)


def steps_of(o, net, batch):
    """As many as take --seconds."""
    if o.budget == 0:
        return TRIED
    took, _, _ = train(o, net, batch, TRIED, o.ranks, alone=True)
    least = LEAST if o.lab is None else LAB_LEAST
    return min(max(least, int(1e3 * o.seconds
                              / max(map(settled_mean, took)))), MOST)


# --- one host -----------------------------------------------------------------

def arithmetic(o, steps, ms, ranks):
    """Rounds a millisecond of each rank."""
    out = json.loads(start(o, ranks, [os.path.join(o.build, 'coll_arithmetic'),
                                      str(steps), str(ms)]))
    return out['rounds'] / settled_mean(out['steps_ms'][steps // 2:])


def on_host(o, net, batch, steps, turn):
    """Images a second of each way."""
    ways = {'one': (1, False), 'job': (o.ranks, False),
            'jobs': (o.ranks, True)}
    order = list(ways)[turn % 3:] + list(ways)[:turn % 3]
    found = {}
    for way in order:
        ranks, alone = ways[way]
        took, _, exchange = train(o, net, batch, steps, ranks, alone)
        if way == 'job':
            found['exchange'] = exchange
        each = 1 if alone else ranks
        found[way] = sum(1e3 * batch * each / settled_mean(ms) for ms in took)
        if way == 'jobs':
            found['in_step'] = (ranks * 1e3 * batch
                                / settled_mean(list(map(max, *took))))
    ms = 1e3 * batch / found['one']
    found['arithmetic'] = (arithmetic(o, steps, ms, o.ranks)
                           / arithmetic(o, steps, ms, 1))
    whole = o.ranks * found['one']
    return {**found, 'efficiency': found['job'] / whole,
            'by_itself': found['jobs'] / whole,
            'by_step': found['in_step'] / whole,
            'of_that': found['job'] / found['in_step']}


# --- hosts ----------------------------------------------------------------------

def sum_ms(o, net):
    """Of all gradients, one vector."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'tensors')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(map(str, nets.tensors(
                compare_torch.text_of(net)))))
        out = start(o, o.ranks, [os.path.join(o.build, 'coll_tensors'), path,
                                 str(min(1, o.budget))])
    return json.loads(out[out.index('{'):])['packed_ms']


def backward_ms(out):
    return float(re.search(r'^  backward +([\d.]+) ', out, re.M)[1])


def on_hosts(o, net, batch, steps, turn):
    """Milliseconds of each part."""
    found = {}

    def alone():
        took, out, _ = train(o, net, batch, steps, o.ranks, True, True)
        found['computing'] = statistics.fmean(map(settled_mean, took))
        found['backward'] = backward_ms(out)

    def job():
        (took,), _, share = train(o, net, batch, steps, o.ranks)
        found['step'] = settled_mean(took)
        found['exchange'] = share * found['step']

    def exchange():
        found['sum'] = sum_ms(o, net)
    parts = (alone, job, exchange)
    for part in parts[turn % 3:] + parts[:turn % 3]:
        part()
    found['exposed'] = found['step'] - found['computing']
    found['most'] = (max(0, found['sum'] - found['backward'])
                     + SHARE * found['computing'])
    return found


# --- all of it -------------------------------------------------------------------

def spread(rounds, key):
    values = [found[key] for found in rounds]
    return (f'{statistics.median(values):.3g} ({min(values):.3g} to '
            f'{max(values):.3g})')


def print_table(o, found):
    several = f'{o.ranks} ranks' if o.lab is None else o.lab
    print(f'{several}; medians of rounds, the least and the most\n')
    columns = ({'one': 'one rank, images/s', 'job': f'{o.ranks} ranks',
                'jobs': f'{o.ranks} jobs', 'efficiency': 'efficiency',
                'by_itself': f'of {o.ranks} jobs',
                'by_step': f'of {o.ranks} jobs in step',
                'arithmetic': 'of arithmetic',
                'of_that': 'ranks / jobs in step', 'exchange': 'exchange'}
               if o.lab is None else
               {'sum': 'sum alone, ms', 'backward': 'backward',
                'computing': 'computing', 'step': 'step',
                'exposed': 'exposed', 'exchange': 'without waiting',
                'most': 'should be at most'})
    print('| net | images a rank | rounds | '
          + ' | '.join(columns.values()) + ' |')
    print('|---|---:|---:|' + '---:|' * len(columns))
    for (net, batch), rounds in found.items():
        cells = [digits(statistics.median(r[key] for r in rounds))
                 if key in ('one', 'job', 'jobs') else spread(rounds, key)
                 for key in columns]
        print(f'| {net} | {batch} | {len(rounds)} | {" | ".join(cells)} |')


def measure(o):
    """(net, images) -> what each round found."""
    begin, found = time.monotonic(), {}
    once = on_host if o.lab is None else on_hosts
    steps = {}
    for turn in range(1 if o.budget == 0 else o.rounds):
        for net, batch in o.nets:
            if turn and time.monotonic() - begin > o.budget:
                return found
            if turn == 0:
                steps[net, batch] = steps_of(o, net, batch)
            found.setdefault((net, batch), []).append(
                once(o, net, batch, steps[net, batch], turn))
            print(f'# {time.monotonic() - begin:.0f} s: {net}:{batch}, '
                  f'{steps[net, batch]} steps, round {turn + 1}',
                  file=sys.stderr, flush=True)
    return found


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--nets')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--lab', metavar='OPTIONS')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=10)
    parser.add_argument('--budget', type=float, default=600,
                        metavar='SECONDS')
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    if o.rounds < 1 or o.seconds <= 0 or o.budget < 0:
        parser.error('--rounds and --seconds are above 0, --budget is not '
                     'below')
    if o.ranks < 2:
        parser.error(f'--ranks: found {o.ranks}, valid is 2 or more')
    o.build = os.path.abspath(o.build)
    if o.lab is not None:
        o.ranks = compare_torch.hosts_of(parser, o.lab)
    usual = HOST_NETS if o.lab is None else LAB_NETS
    o.nets = compare_torch.nets_of(parser, o.nets or usual, usual)
    return o


def main():
    o = parse_options()
    try:
        found = measure(o)
    except Failed as failure:
        print(f'scaling.py: {failure}', file=sys.stderr)
        return failure.status
    print_table(o, found)
    if o.json:
        with open(o.json, 'w', encoding='utf-8') as file:
            json.dump({'ranks': o.ranks, 'lab': o.lab,
                       'rows': [{'net': net, 'batch': batch, 'rounds': rounds}
                                for (net, batch), rounds in found.items()]},
                      file)
    return 0


if __name__ == '__main__':
    sys.exit(main())
