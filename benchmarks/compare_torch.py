#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares training steps of coll_train with those of PyTorch on this machine.

    benchmarks/compare_torch.py [--build build] [--nets lenet:64,resnet20:128]
        [--threads 1] [--ranks 1] [--lab "--hosts 4 --rate 1Gbit"]
        [--rounds 3] [--seconds 5] [--precision f32|bf16] [--json FILE]

A step is forward, backward and SGD with momentum and weight decay, on images
that are made up. Nets are built-in ones or files, each with its images a step.
PyTorch runs the same net, line by line of its text, in the four variants that
flags make: channels last or not, and with malloc told to keep its memory or not;
each round counts the fastest. Both run in turn, each in processes of its own,
with as many threads; who begins changes from round to round.

With several ranks PyTorch has DistributedDataParallel over Gloo, and images are
those of each rank. They are on this machine, or with --lab on hosts that
tests/netlab/netlab imitates with those options, a rank each (root only).

Printed is a table in Markdown: median over rounds of images a second of all
ranks (each the median of its steps, in a lab of coll_train the mean of the
later half without the tenths at both ends), the median of the rounds' ratios with the
smallest and the largest (more than 1: coll_train was faster), the peak memory of
a process (of PyTorch's the least), and with several ranks the part of a step
that communication adds: of coll_train what it waits for, of PyTorch what a step
takes longer than one that sums nothing. Status: 0 compared, 77 no PyTorch (Debian:
python3-torch) or no such hosts here, 1 something failed.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = ('lenet:64,resnet20:128,alexnet:32,googlenet:16,resnet18:16,'
        'resnet50:16,vgg16:8')
TORCH_NET = os.path.join(HERE, 'torch_net.py')
SYSTEM_PYTHON = '/usr/bin/python3'
KEEP = {'MALLOC_MMAP_MAX_': '0', 'MALLOC_TRIM_THRESHOLD_': str(16 << 30)}


SKIPPED = 77
LAB_LEAST = 280  # steps, in whose first half --exchange auto chooses: 3 + 17 * 8


class Failed(Exception):
    """What a program said, and the status for it."""

    def __init__(self, said, status=1):
        super().__init__(said)
        self.status = SKIPPED if status == SKIPPED else 1


# --- both in turn -----------------------------------------------------------

def run(command, **env):
    """Standard output, and the peak of its largest process in MiB."""
    with tempfile.TemporaryFile('w+') as out, \
            tempfile.TemporaryFile('w+') as error:
        process = subprocess.Popen(command, env=dict(os.environ, **env),
                                   stdout=out, stderr=error)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        error.seek(0)
        if status != 0:
            raise Failed(f"{' '.join(command)}: status {process.returncode}\n"
                         f"{error.read().strip()}", process.returncode)
        return out.read(), usage.ru_maxrss / 1024


def run_ranks(commands, **env):
    """Standard output of the first of these, which run at once."""
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(subprocess.Popen(
            command, env=dict(os.environ, **env), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            for command in commands]
        said = [rank.communicate() for rank in ranks]
    for rank, (_, error), command in zip(ranks, said, commands):
        if rank.returncode != 0:
            raise Failed(f"{' '.join(command)}: status {rank.returncode}\n"
                         f"{error.strip()}")
    return said[0][0]


def in_lab(o, folder, words, env):
    """Standard output of rank 0 on hosts of their own, and the peak."""
    _, peak = run([os.path.join(HERE, '..', 'tests', 'netlab', 'netlab'),
                   *shlex.split(o.lab), '--delay-switch',
                   os.path.join(o.build, 'delay_switch'), '--output', folder,
                   *(word for pair in env.items()
                     for word in ('--env', '='.join(pair))), *words])
    with open(os.path.join(folder, 'out.0'), encoding='utf-8') as file:
        return file.read(), peak


def run_torch_once(o, words, env):
    env = dict(env, OMP_NUM_THREADS=str(o.threads))
    with tempfile.TemporaryDirectory() as folder:
        if o.lab is not None:
            return in_lab(o, folder, ['--gloo', '--', TORCH_NET, *words],
                          env)[0]
        if o.ranks == 1:
            return run([sys.executable, TORCH_NET, *words], **env)[0]
        return run_ranks([[sys.executable, TORCH_NET, str(rank), str(o.ranks),
                           folder, *words] for rank in range(o.ranks)], **env)


def run_torch(o, path, batch):
    """Images a second of the fastest variant, its communication, and the least
    peak."""
    rows = []
    for last in '01':
        for env in ({}, KEEP):
            out = run_torch_once(o, [os.path.abspath(path), str(batch),
                                     str(o.threads), last, o.precision,
                                     str(o.seconds / 4)], env)
            rows.append(tuple(map(float, out.split())))
    rate, _, share = max(rows)
    return o.ranks * rate, min(row[1] for row in rows), share


def settled_mean(values):
    """Without the tenths at both ends: what one step leaves to be waited for the
    next one waits for, so that medians would be too good."""
    cut = len(values) // 10
    return statistics.fmean(sorted(values)[cut:len(values) - cut])


def run_coll(o, net, path, batch, rate):
    """rate: PyTorch's images a second; as long a run, were it as fast."""
    with open(path, encoding='utf-8') as file:
        shape = next(line.split()[1] for line in file
                     if line.startswith('input'))
    least = 4 if o.lab is None else LAB_LEAST
    steps = max(least, int(o.seconds * rate / batch / o.ranks))
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        command = [os.path.abspath(os.path.join(o.build, 'coll_train')),
                   '--net', net, '--data',
                   f'synthetic:{4 * batch * o.ranks}x{shape}', '--epochs',
                   str(steps), '--steps', str(steps), '--batch', str(batch),
                   '--lr', '0.0001', '--momentum', '0.9', '--weight-decay',
                   '0.0001', '--threads', str(o.threads), '--precision',
                   o.precision, '--log', log]
        env = {'COLL_STORE': 'off'}
        if o.ranks > 1 and o.lab is None:
            command = [os.path.join(o.build, 'collrun'), '-n', str(o.ranks),
                       *(['--bind', 'none'] if o.threads > 1 else []),
                       *command]
        _, peak = (run(command, **env) if o.lab is None else
                   in_lab(o, folder, ['--', *command], env))
        with open(log, encoding='utf-8') as file:
            lines = [json.loads(line) for line in file]
    took = [line for line in lines if 'step_ms' in line][1:]
    usual = statistics.median
    if o.lab is not None:
        usual, took = settled_mean, took[len(took) // 2:]
    return (o.ranks * batch * 1e3 / usual(
        [line['step_ms'] for line in took]), peak,
            usual([line['comm_share'] for line in took]))


def digits(x):
    return f'{x:.0f}' if x >= 100 else f'{x:.3g}'


def text_of(net):
    """The file that has it."""
    path = net if os.path.exists(net) else os.path.join(
        HERE, '..', 'trainer', 'nets', net + '.net')
    if not os.path.exists(path):
        raise Failed(f'--nets: found "{net}", valid is a built-in net or a '
                     'file, such as lenet:64')
    return path


def nets_of(parser, text, like):
    """Pairs of a net and its images a step."""
    try:
        return [(net, int(batch)) for net, batch in
                (pair.rsplit(':', 1) for pair in text.split(','))]
    except ValueError:
        parser.error(f'--nets: found "{text}", valid is like {like}')


def compare(o, net, batch):
    path = text_of(net)
    ours, theirs = [], []
    for i in range(o.rounds):
        if i % 2 == 0:
            theirs.append(run_torch(o, path, batch))
        ours.append(run_coll(o, net, path, batch, theirs[-1][0]))
        if i % 2 == 1:
            theirs.append(run_torch(o, path, batch))
    ratios = [a[0] / b[0] for a, b in zip(ours, theirs)]
    row = {'net': net, 'batch': batch, 'threads': o.threads,
           'ranks': o.ranks, 'lab': o.lab, 'precision': o.precision,
           'coll': statistics.median(r[0] for r in ours),
           'torch': statistics.median(r[0] for r in theirs),
           'ratio': statistics.median(ratios), 'ratios': ratios,
           'coll_mib': max(r[1] for r in ours),
           'torch_mib': min(r[1] for r in theirs),
           'coll_share': statistics.median(r[2] for r in ours),
           'torch_share': statistics.median(r[2] for r in theirs)}
    shares = ('' if o.ranks == 1 else f" {100 * row['coll_share']:.1f} % | "
              f"{100 * row['torch_share']:.1f} % |")
    print(f"| {net} | {batch} | {digits(row['coll'])} | "
          f"{digits(row['torch'])} | "
          f"{row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
          f"{row['coll_mib']:.0f} | {row['torch_mib']:.0f} |{shares}", flush=True)
    return row


def hosts_of(parser, lab):
    """How many ranks these options of netlab make."""
    words = argparse.ArgumentParser(add_help=False)
    words.add_argument('--hosts', type=int, default=4)
    words.add_argument('--ranks-per-host', type=int, default=1)
    words.add_argument('--place', default='block')
    o, _ = words.parse_known_args(shlex.split(lab))
    nranks = (o.hosts * o.ranks_per_host
              if o.place in ('block', 'round_robin')
              else len(o.place.split(',')))
    if nranks < 2:
        parser.error(f'--lab: found "{lab}", valid are at least 2 ranks')
    return nranks


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--nets', default=NETS)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--ranks', type=int, default=1)
    parser.add_argument('--lab', metavar='OPTIONS')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--precision', choices=('f32', 'bf16'), default='f32')
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    if min(o.threads, o.rounds, o.ranks) < 1 or o.seconds <= 0:
        parser.error('--threads, --ranks, --rounds and --seconds are above 0')
    if o.lab is not None:
        o.ranks = hosts_of(parser, o.lab)
    o.nets = nets_of(parser, o.nets, NETS)
    return o


def main():
    o = parse_options()
    # Imported by children only: what a process forks has its peak as well.
    if not importlib.util.find_spec('torch'):
        if (os.path.exists(SYSTEM_PYTHON) and os.path.realpath(SYSTEM_PYTHON)
                != os.path.realpath(sys.executable)):
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
        print('compare_torch.py: no PyTorch (Debian: python3-torch)',
              file=sys.stderr)
        return SKIPPED
    version = run([sys.executable, '-c',
                   'import torch; print(torch.__version__)'])[0].strip()
    print(f'PyTorch {version}, {o.precision}, {o.ranks} '
          f'rank{"s" * (o.ranks > 1)}, {o.threads} '
          f'thread{"s" * (o.threads > 1)}{", " * bool(o.lab)}{o.lab or ""}\n')
    shares = o.ranks > 1
    print('| net | images a rank | coll_train, images/s | PyTorch | ratio | '
          'coll_train, MiB | PyTorch |'
          + ' communication | PyTorch |' * shares)
    print('|---|---:|---:|---:|---:|---:|---:|' + '---:|---:|' * shares)
    try:
        rows = [compare(o, net, batch) for net, batch in o.nets]
    except Failed as failure:
        print(f'compare_torch.py: {failure}', file=sys.stderr)
        return failure.status
    if o.json:
        with open(o.json, 'w', encoding='utf-8') as file:
            json.dump({'torch': version, 'rows': rows}, file)
    return 0


if __name__ == '__main__':
    sys.exit(main())
