#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares libcoll with SimGrid: its simulator, and its choices of algorithm.

    tests/simgrid/compare.py [--build build] [--ranks 64,256,1024]
        [--sizes 1024,4096,...] [--budget-seconds 600] [--jobs 2]
        [--out PREFIX]

First, what the same plans take on libcoll's simulator and on SimGrid's fluid
model; then what libcoll would choose for an allreduce against what the
selectors of SMPI choose (Open MPI's, MPICH's and MVAPICH2's decisions, as
SimGrid has them), all on SimGrid's network, without charge for adding.

Writes PREFIX.md and PREFIX.json, and the Markdown to stdout. Runs are started
from small to large while there is time; what there was none for is named.
Status: 0 compared, 77 SimGrid is missing, 1 something failed.
"""
import argparse
import concurrent.futures
import json
import math
import os
import subprocess
import sys
import tempfile
import time

SIZES = [1024 * 4 ** i for i in range(9)]  # 1 KiB to 64 MiB
SELECTORS = ['ompi', 'mpich', 'mvapich2']
RUN_SECONDS = 400  # the most that a single program may take
TOLERANCE = 0.10
MIB = 1 << 20


class Failed(Exception):
    """A program that did not do its work; says which and why."""


def fat_tree(ranks):
    """16 hosts an edge switch, which is left by half of what they can send."""
    return (f'edge:{ranks // 16} (2us 100GB/s shared) '
            'host:16 (1us 12.5GB/s)')


def two_groups(ranks):
    """Two halves with an eighth of a half's bandwidth between them."""
    trunk = ranks / 2 * 12.5 / 8
    return (f'side:2 (2us {trunk:g}GB/s shared) '
            f'host:{ranks // 2} (1us 12.5GB/s)')


def taihulight(ranks):
    """topo/clusters/taihulight_1024 with its 3 GB/s a host across supernodes as
    a link that a supernode's hosts share; smaller ones have fewer hosts."""
    hosts = ranks // 4
    return (f'supernode:4 (3us {3 * hosts}GB/s shared) '
            f'node:{hosts} (1us 12GB/s)')


PLATFORMS = {'fat tree': fat_tree, 'two groups': two_groups,
             'taihulight': taihulight}
CHECKED = ['fat tree', 'two groups']  # the simulators against each other
COMPARED = ['fat tree', 'taihulight']  # the choices
ORDERS = ['block', 'round_robin']
CASES = [f'{algorithm}:{order}'
         for algorithm in ('ring', 'halving_doubling', 'halving_doubling_near',
                           'double_binary_tree')
         for order in ORDERS] + ['double_binary_tree:block:16',
                                 'hierarchical:block', 'hierarchical:block:4']


def have(build):
    """None, or what is missing."""
    for name in ('simgrid_replay', 'simgrid_platform.so', 'allreduce_smpi'):
        if not os.path.exists(os.path.join(build, name)):
            return f'{name} was not built: no SimGrid, C++ compiler or smpicxx'
    return None


def run(command, seconds, env=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=max(seconds, 1), check=False, env=env)
    except subprocess.TimeoutExpired as late:
        raise Failed(f'{command[0]} took more than {seconds:.0f} s') from late
    if done.returncode:
        raise Failed(f'{os.path.basename(command[0])} ended with '
                     f'{done.returncode}: {done.stderr.strip()[-300:]}')
    return done.stdout


def replay(build, cluster, sizes, cases, seconds=RUN_SECONDS):
    """The lines of simgrid_replay, as dictionaries."""
    out = run([os.path.join(build, 'simgrid_replay'), '--cluster', cluster,
               '--bytes', ','.join(map(str, sizes)), *cases], seconds)
    return [json.loads(line) for line in out.splitlines()]


def smpi(build, cluster, ranks, sizes, settings, seconds=RUN_SECONDS):
    """Seconds of MPI_Allreduce by size, on SMPI with these settings."""
    program = os.path.join(build, 'allreduce_smpi')
    config = run([os.path.join(build, 'simgrid_replay'), '--config'],
                 10).split()
    with tempfile.NamedTemporaryFile('w', suffix='.hosts') as hosts:
        hosts.write(''.join(f'host-{r}\n' for r in range(ranks)))
        hosts.flush()
        out = run(['timeout', str(int(seconds)), 'smpirun', '-no-privatize',
                   '-wrapper', f'env LD_PRELOAD={program}', '-platform',
                   os.path.join(build, 'simgrid_platform.so'),
                   '-hostfile', hosts.name, '-np', str(ranks), *config,
                   '--log=root.thres:warning',
                   '--cfg=smpi/simulate-computation:no',
                   '--cfg=smpi/gather:mvapich2_two_level',
                   *[f'--cfg=smpi/{setting}' for setting in settings],
                   program, *map(str, sizes)], seconds + 5,
                  dict(os.environ, COLL_CLUSTER=cluster))
    times = {}
    for line in out.splitlines():
        size, taken = line.split()
        times[int(size)] = max(times.get(int(size), 0), float(taken))
    if sorted(times) != sorted(sizes):
        raise Failed(f'smpirun measured {len(times)} of {len(sizes)} sizes')
    return times


def check_jobs(ranks):
    """(platform, sizes, cases) of the simulators' comparison. The two million
    messages of a ring on 1024 ranks take half a minute a size: one will do."""
    for platform in CHECKED:
        if ranks < 1024:
            yield platform, [1024, MIB, 64 * MIB], CASES
            continue
        yield platform, [1024, MIB, 64 * MIB], CASES[2:]
        yield platform, [MIB], CASES[:2]


def geometric(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def us(seconds):
    return '' if seconds is None else f'{seconds * 1e6:.2f}'


def ratio(of, to):
    return of / to if of and to else None


def times_of(value):
    return '' if value is None else f'{value:.2f}'


def size_name(size):
    return f'{size >> 20} MiB' if size >= MIB else f'{size >> 10} KiB'


class Work:
    """All runs, as many at once as --jobs, within the time."""

    def __init__(self, args):
        self.args = args
        self.end = time.monotonic() + args.budget_seconds
        self.checks, self.choices, self.left_out = [], {}, []

    def seconds(self):
        return min(RUN_SECONDS, self.end - time.monotonic())

    def try_out(self, what, function):
        if self.seconds() < 5:
            self.left_out.append(f'{what}: no time was left')
            return
        begun = time.monotonic()
        try:
            function()
        except Failed as why:
            self.left_out.append(f'{what}: {why}')
        print(f'# {what}: {time.monotonic() - begun:.1f} s', file=sys.stderr)

    def check(self, platform, ranks, sizes, cases):
        rows = replay(self.args.build, PLATFORMS[platform](ranks), sizes, cases,
                      self.seconds())
        self.checks += [dict(row, platform=platform) for row in rows]

    def row(self, platform, ranks, size):
        return self.choices.setdefault((platform, ranks, size), {})

    def choose(self, platform, ranks, cases):
        """'chosen', and the plain halving-distance in block order."""
        for line in replay(self.args.build, PLATFORMS[platform](ranks),
                           self.args.sizes, cases, self.seconds()):
            row = self.row(platform, ranks, line['bytes'])
            if line['case'] == 'chosen':
                row.update(ours=line['ours'], replayed=line['simgrid'],
                           algorithm=line['algorithm'], order=line['order'],
                           segments=line['segments'])
            else:
                row['plain'] = line['simgrid']

    def select(self, platform, ranks, selector):
        for size, taken in smpi(self.args.build, PLATFORMS[platform](ranks),
                                ranks, self.args.sizes,
                                [f'coll-selector:{selector}'],
                                self.seconds()).items():
            self.row(platform, ranks, size)[selector] = taken

    def jobs(self):
        for ranks in self.args.ranks:
            for platform in COMPARED:
                # The choices first: what takes longest must not begin last.
                for case in 'chosen', 'halving_doubling:block':
                    yield (f'{platform}, {ranks} ranks, {case}',
                           lambda p=platform, n=ranks, c=case:
                           self.choose(p, n, [c]))
                for selector in SELECTORS:
                    yield (f'{platform}, {ranks} ranks, {selector}',
                           lambda p=platform, n=ranks, s=selector:
                           self.select(p, n, s))
            for platform, sizes, cases in check_jobs(ranks):
                yield (f'{platform}, {ranks} ranks, {len(cases)} plans',
                       lambda p=platform, n=ranks, s=sizes, c=cases:
                       self.check(p, n, s, c))

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(self.try_out, *job)
                         for job in self.jobs()]:
                done.result()


def check_table(checks):
    yield '## The same plans on both simulators\n'
    yield 'Microseconds; the ratio is libcoll\'s to SimGrid\'s.\n'
    yield '| platform | ranks | plan | bytes | libcoll | SimGrid | ratio |'
    yield '| --- | ---: | --- | ---: | ---: | ---: | ---: |'
    for c in sorted(checks, key=lambda c: (c['platform'], c['ranks'],
                                           CASES.index(c['case']), c['bytes'])):
        yield (f"| {c['platform']} | {c['ranks']} | {c['case']} "
               f"| {size_name(c['bytes'])} | {us(c['ours'])} "
               f"| {us(c['simgrid'])} | {c['ratio']:.4f} |")
    if checks:
        worst = max(checks, key=lambda c: abs(math.log(c['ratio'])))
        yield (f"\n{len(checks)} figures; farthest from 1 is "
               f"{worst['ratio']:.4f}.")


def choice_table(platform, ranks, rows):
    yield f'\n## allreduce, {platform}, {ranks} ranks: {PLATFORMS[platform](ranks)}\n'
    yield ('Microseconds on SimGrid; "predicted" is libcoll\'s own simulator. '
           'Behind each selector: its time by ours.\n')
    yield ('| bytes | chosen | predicted | ours | ' + ' | '.join(
        f'{s} | x' for s in SELECTORS) + ' | plain halving, block | x |')
    yield '| ---: | --- | ---: | ---: |' + ' ---: |' * (2 * len(SELECTORS) + 2)
    others = [*SELECTORS, 'plain']
    for size, row in rows:
        ours = row.get('replayed')
        chosen = (f"{row['algorithm']}, {row['order']}, {row['segments']}"
                  if ours else '')
        cells = [size_name(size), chosen, us(row.get('ours')), us(ours)]
        for other in others:
            cells += [us(row.get(other)),
                      times_of(ratio(row.get(other), ours))]
        yield '| ' + ' | '.join(cells) + ' |'
    means = []
    for other in others:
        means += ['', times_of(geometric(
            ratio(row.get(other), row.get('replayed')) for _, row in rows))]
    yield '| geometric mean | | | | ' + ' | '.join(means) + ' |'


def report(work):
    yield '# libcoll and SimGrid\n'
    yield from check_table(work.checks)
    for ranks in work.args.ranks:
        for platform in COMPARED:
            rows = [(size, work.choices[platform, ranks, size])
                    for size in work.args.sizes
                    if (platform, ranks, size) in work.choices]
            if rows:
                yield from choice_table(platform, ranks, rows)
    if work.left_out:
        yield '\n## Left out\n'
        yield from (f'- {line}' for line in work.left_out)


def as_json(work):
    return {
        'checks': work.checks,
        'choices': [dict(row, platform=platform, ranks=ranks, bytes=size,
                         cluster=PLATFORMS[platform](ranks))
                    for (platform, ranks, size), row
                    in sorted(work.choices.items())],
        'left_out': work.left_out,
    }


def numbers(text):
    return [int(word) for word in text.split(',')]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--build', default='build')
    parser.add_argument('--ranks', type=numbers, default=[64, 256, 1024])
    parser.add_argument('--sizes', type=numbers, default=SIZES)
    parser.add_argument('--budget-seconds', type=float, default=600)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--out', default='simgrid')
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    missing = have(args.build)
    if missing:
        print(f'compare.py: {missing}', file=sys.stderr)
        return 77
    work = Work(args)
    work.run()
    text = '\n'.join(report(work)) + '\n'
    with open(args.out + '.md', 'w', encoding='utf-8') as file:
        file.write(text)
    with open(args.out + '.json', 'w', encoding='utf-8') as file:
        json.dump(as_json(work), file, indent=1)
    print(text, end='')
    return 0 if work.checks or work.choices else 1


if __name__ == '__main__':
    sys.exit(main())
