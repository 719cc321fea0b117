#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What several ranks cost coll_train: on one host, or by a network.

    benchmarks/scaling.py [--build build] [--nets resnet18:16,vgg16:4] [--ranks 2]
        [--lab "--hosts 4 --rate 1Gbit"] [--rounds 5] [--seconds 10] [--slice 4]
        [--budget 900] [--json FILE]

On one host there are a job of several ranks, and as many jobs of one rank each with as
many images, bound to the same cores. They take turns: the job; those of one rank all at
the same time; and each of them by itself, which is "one rank". At the same time they
share memory and clock but exchange nothing, so what they lose the machine takes; so it
does what they would have lost had each step waited for the slowest of them, as ranks do
("jobs in step": the k-th steps of all jobs count as the longest). All are there at once,
in memory too, and stopped but for who has a turn, for the time of a few steps (--slice),
so that they meet the same machine also where that changes. Of a step that was stopped
the stop does not count.
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

In the lab the second half of the steps of a run counts. Each net has an equal part of
--budget seconds, after which it begins no round; 0: a try, one round of a few steps.
Status: 0 measured, 77 there can be no such hosts here, 1 something failed.
"""
import argparse
import contextlib
import json
import math
import os
import re
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import compare_torch  # noqa: E402
import in_turn  # noqa: E402
from compare_torch import (  # noqa: E402
    LAB_LEAST, Failed, digits, in_lab, settled_mean)
sys.path.insert(0, os.path.join(compare_torch.HERE, 'papers'))
import nets  # noqa: E402

HOST_NETS, LAB_NETS = 'resnet18:16,vgg16:4', 'lenet:64,resnet20:32'
ENV = {'COLL_STORE': 'off', 'OPENBLAS_NUM_THREADS': '1'}
TRIED, MOST, ENDLESS = 4, 1000, 10 ** 6  # steps
# Started as ranks are, but each is a job by itself, with a log of its own.
ALONE = ('log=$1.$COLL_RANK; shift; unset COLL_RANK COLL_NRANKS COLL_ROOT '
         'COLL_JOB_KEY COLL_TOLD; exec "$@" --log "$log"')
EXCHANGE = ('inside', 'outside')
SHARE = 0.1  # of computing, that may be exposed besides
SHORTEST = 0.25  # seconds of a turn


def start(o, words):
    """What rank 0 prints, in the lab."""
    with tempfile.TemporaryDirectory() as folder:
        return in_lab(o, folder, ['--', *words], ENV)[0]


def command_of(o, net, batch, ranks, steps):
    """coll_train for that many ranks."""
    shape = nets.images(compare_torch.text_of(net))
    return [os.path.join(o.build, 'coll_train'), '--net', net, '--data',
            f'synthetic:{4 * batch * ranks}x{shape}', '--batch', str(batch),
            '--lr', '0.0001', '--momentum', '0.9', '--epochs', str(steps),
            '--steps', str(steps)]


def alone(o, net, batch, steps, log):
    """A job of its own for each rank that is started, with log.RANK."""
    return ['sh', '-c', ALONE, 'sh', log, *command_of(o, net, batch, 1, steps)]


def settled_rows(log):
    with open(log, encoding='utf-8') as file:
        rows = [row for row in map(json.loads, file) if 'step_ms' in row]
    return rows[len(rows) // 2:]


def mean_ms(rows):
    return settled_mean([row['step_ms'] for row in rows])


def exchange_ms(row):
    """Without waiting for the slowest rank."""
    spent = sum(row['parts_ms'][part] for part in EXCHANGE)
    return spent - (row['slowest_ms'] if row.get('slowest_rank') else 0)


def exchange_of(rows):
    """Its part of a step. Who waits may do something useful (trainer/README.md,
    "Weights in common"): so by the steps in which rank 0 did not wait."""
    whole = [row for row in rows if not row.get('stopped')]
    last = [row for row in whole if not row.get('slowest_rank')]
    if len(last) > 1:
        whole = last
    return settled_mean(list(map(exchange_ms, whole))) / mean_ms(whole)


# --- one host -----------------------------------------------------------------

class Host:
    """The jobs of one net, which take turns."""

    def __init__(self, o, net, batch, stack):
        self.o, self.batch = o, batch
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        log, ranks = os.path.join(folder, 'log'), range(o.ranks)

        def job(logs, words):
            started = in_turn.Job([os.path.join(o.build, 'collrun'), '-n',
                                   str(o.ranks), *words], logs, ENV)
            stack.callback(started.end)
            return started, started.begin(TRIED)
        self.job, _ = job([log], [*command_of(o, net, batch, o.ranks, ENDLESS),
                                  '--log', log])
        self.jobs, step = job([f'{log}.{rank}' for rank in ranks],
                              alone(o, net, batch, ENDLESS, log))
        self.seconds = max(o.slice * step, SHORTEST)
        self.turns = (1 if o.budget == 0 else
                      math.ceil(o.seconds / self.seconds))

    def steps(self, turn):
        """Of the job, of those of one rank each at the same time, and of each of
        those by itself."""
        job, jobs, ones = ([[] for _ in logs] for logs in (
            self.job.logs, self.jobs.logs, self.jobs.logs))
        parts = [(job, self.job, None), (jobs, self.jobs, None),
                 *((ones[rank:rank + 1], self.jobs, rank)
                   for rank in range(self.o.ranks))]
        for i in range(turn * self.turns, (turn + 1) * self.turns):
            first = i % len(parts)
            for logs, way, only in parts[first:] + parts[:first]:
                for log, rows in zip(logs, way.run(self.seconds, only)):
                    log += rows
        if not all(job + jobs + ones):
            raise Failed(f'no step in {self.turns} turns of '
                         f'{self.seconds:.3g} s; a greater --seconds may help')
        return job[0], jobs, ones

    def round(self, turn):
        """Images a second of each way, and what follows."""
        job, jobs, ones = self.steps(turn)
        in_step = settled_mean([max(row['step_ms'] for row in rows)
                                for rows in zip(*jobs)])
        ms = {'one': statistics.harmonic_mean(map(mean_ms, ones)),
              'job': mean_ms(job) / self.o.ranks,
              'jobs': (statistics.harmonic_mean(map(mean_ms, jobs))
                       / self.o.ranks),
              'in_step': in_step / self.o.ranks}
        rate = {way: 1e3 * self.batch / value for way, value in ms.items()}
        whole = self.o.ranks * rate['one']
        return {**rate, 'efficiency': rate['job'] / whole,
                'by_itself': rate['jobs'] / whole,
                'by_step': rate['in_step'] / whole,
                'of_that': rate['job'] / rate['in_step'],
                'exchange': exchange_of(job), 'steps': len(job)}


# --- hosts ----------------------------------------------------------------------

def steps_of(o, net, batch, folder):
    """As many as take --seconds."""
    if o.budget == 0:
        return TRIED
    log = os.path.join(folder, 'tried')
    start(o, alone(o, net, batch, TRIED, log))
    took = max(mean_ms(settled_rows(f'{log}.{rank}'))
               for rank in range(o.ranks))
    return min(max(LAB_LEAST, int(1e3 * o.seconds / took)), MOST)


def sum_ms(o, net):
    """Of all gradients, one vector."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'tensors')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(map(str, nets.tensors(
                compare_torch.text_of(net)))))
        out = start(o, [os.path.join(o.build, 'coll_tensors'), path,
                        str(min(1, o.budget))])
    return json.loads(out[out.index('{'):])['packed_ms']


def backward_ms(out):
    return float(re.search(r'^  backward +([\d.]+) ', out, re.M)[1])


class Hosts:
    """One net, on hosts of their own."""

    def __init__(self, o, net, batch, stack):
        self.o, self.net, self.batch = o, net, batch
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.steps = steps_of(o, net, batch, self.folder)

    def alone(self, found):
        log = os.path.join(self.folder, 'alone')
        out = start(self.o, [*alone(self.o, self.net, self.batch, self.steps,
                                    log), '--profile'])
        found['computing'] = statistics.fmean(
            mean_ms(settled_rows(f'{log}.{rank}'))
            for rank in range(self.o.ranks))
        found['backward'] = backward_ms(out)

    def job(self, found):
        log = os.path.join(self.folder, 'job')
        start(self.o, [*command_of(self.o, self.net, self.batch, self.o.ranks,
                                   self.steps), '--log', log])
        rows = settled_rows(log)
        found['step'] = mean_ms(rows)
        found['exchange'] = exchange_of(rows) * found['step']

    def sum(self, found):
        found['sum'] = sum_ms(self.o, self.net)

    def round(self, turn):
        """Milliseconds of each part."""
        found, parts = {}, (self.alone, self.job, self.sum)
        for part in parts[turn % 3:] + parts[:turn % 3]:
            part(found)
        found['exposed'] = found['step'] - found['computing']
        found['most'] = (max(0, found['sum'] - found['backward'])
                         + SHARE * found['computing'])
        return {**found, 'steps': self.steps}


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
    found = {}
    for net, batch in o.nets:
        begin, rounds = time.monotonic(), []
        with contextlib.ExitStack() as stack:
            ways = (Host if o.lab is None else Hosts)(o, net, batch, stack)
            for turn in range(1 if o.budget == 0 else o.rounds):
                if turn and (time.monotonic() - begin
                             > o.budget / len(o.nets)):
                    break
                rounds.append(ways.round(turn))
                print(f'# {net}:{batch}, round {turn + 1}, '
                      f"{rounds[-1]['steps']} steps, "
                      f'{time.monotonic() - begin:.0f} s', file=sys.stderr,
                      flush=True)
        found[net, batch] = rounds
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
    parser.add_argument('--slice', type=float, default=4, metavar='STEPS')
    parser.add_argument('--budget', type=float, default=900,
                        metavar='SECONDS')
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    if o.rounds < 1 or o.seconds <= 0 or o.budget < 0:
        parser.error('--rounds and --seconds are above 0, --budget is not '
                     'below')
    if o.slice < 2:
        parser.error(f'--slice: found {o.slice:g}, valid is 2 or more')
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
