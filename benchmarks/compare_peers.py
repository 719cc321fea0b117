#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares coll_bench with the MPIs and the Gloo of this machine, f32 sum.

    benchmarks/compare_peers.py [--build build] [-n 2] [--rounds 5]
        [--collective allreduce,broadcast|all] [--sizes 8:64M:4]
        [--memory heap|malloc] [--peers openmpi,mpich,gloo]
        [--all-algorithms] [--json FILE]

Sizes are measured in groups. In each round all programs run one right after
the other on the same group, and who begins changes from round to round, so that
what else the machine does meets all alike. Printed is a table in Markdown for
each collective: for each size the median over the rounds of each p50, and for
each peer the median of the rounds' ratios, its p50 by that of coll_bench, with
the smallest and the largest: more than 1 means that coll_bench was faster. With
several collectives the last table has the least of the peers' medians for each
collective and size.

All programs follow the timing rule of README.md. Peers that are not installed
are left out. Status: 0 compared, 77 no peer is installed, 1 something failed.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GLOO = ['allreduce', 'reduce', 'broadcast', 'reduce_scatter', 'allgather',
        'gather', 'scatter', 'alltoall', 'barrier']
COLLECTIVES = GLOO + ['reduce_scatter_v', 'allgather_v', 'gather_v',
                      'scatter_v', 'alltoall_v', 'sendrecv', 'pingpong']
PEERS = ['openmpi', 'mpich', 'gloo']
PACKAGES = {'openmpi': 'openmpi-bin libopenmpi-dev',
            'mpich': 'mpich libmpich-dev', 'gloo': 'libgloo-dev g++'}
FLAGS = ['-D_GNU_SOURCE', '-O3', '-I', os.path.join(HERE, '..', 'include')]
# What peers share with coll_bench lies beside them.
SHARED = [os.path.join(HERE, name)
          for name in ('peer.c', 'collective.c', 'parts.c')]
# So that a round of all programs takes a minute at most: few sizes in a group,
# and long vectors alone.
GROUP_SIZES, GROUP_BYTES = 5, 48 << 20
RUN_SECONDS = 300


class Failed(Exception):
    """What a program said."""


def run(command, **more):
    """Standard output."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1',
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
    try:
        done = subprocess.run(command, env=env, text=True,
                              capture_output=True, timeout=RUN_SECONDS,
                              check=False, **more)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: not done in {RUN_SECONDS} s")
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: status {done.returncode}\n"
                     f"{done.stderr.strip()}")
    return done.stdout


def enough_cpus(n):
    return len(os.sched_getaffinity(0)) >= n


class Coll:
    """coll_bench itself."""

    def __init__(self, options, folder):
        self.path = os.path.join(folder, 'coll.json')
        self.start = [os.path.join(options.build, 'collrun'), '-n',
                      str(options.n), os.path.join(options.build,
                                                   'coll_bench')]
        self.end = ['--memory', options.memory, '--json', self.path]

    def measure(self, collective, low, high, factor):
        """bytes -> p50 in microseconds."""
        run([*self.start, collective, '-b', str(low), '-e', str(high), '-f',
             str(factor), *self.end])
        with open(self.path, encoding='utf-8') as file:
            return {row['bytes']: row['time_us']['p50']
                    for row in json.load(file)['results']}


def parse(name, text):
    """What peer.h says a peer prints."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[5] != '0':
            raise Failed(f'{name}: {words[5]} wrong elements at {words[0]} '
                         'bytes')
        found[int(words[0])] = float(words[2])
    return found


def build_mpi(name, program):
    run([f'mpicc.{name}', '-std=c17', *FLAGS, '-o', program,
         os.path.join(HERE, 'peer_mpi.c'), *SHARED, '-lm'])


def build_gloo(source, folder, program):
    parts = []
    for part in SHARED:
        parts.append(os.path.join(folder, os.path.basename(part) + '.o'))
        run(['gcc', '-std=c17', *FLAGS, '-c', '-o', parts[-1], part])
    run(['g++', '-std=c++17', '-w', *FLAGS, '-I', HERE, '-o', program, source,
         *parts, '-lgloo', '-lpthread'])


class Mpi:
    """An MPI whose commands end in .NAME, as Debian calls them. With an
    algorithm it is Open MPI's, by number, for allreduce alone."""

    def __init__(self, name, options, folder, algorithm=None):
        self.name = name if algorithm is None else f'{name}-{algorithm}'
        self.collectives = COLLECTIVES if algorithm is None else ['allreduce']
        self.program = os.path.join(folder, f'peer_{name}')
        launcher = [f'mpirun.{name}', '-n', str(options.n)]
        bind = enough_cpus(options.n)
        if name == 'openmpi':
            launcher += ['--bind-to', 'core'] if bind else ['--oversubscribe']
        elif bind:
            launcher += ['-bind-to', 'core']
        if algorithm is not None:
            launcher += ['--mca', 'coll_tuned_use_dynamic_rules', '1',
                         '--mca', 'coll_tuned_allreduce_algorithm',
                         str(algorithm)]
        self.launcher = launcher
        if not os.path.exists(self.program):
            build_mpi(name, self.program)
        lines = run([f'mpirun.{name}', '--version']).split('\n')
        # MPICH says its version in the second line.
        self.version = (lines[0] if name == 'openmpi' else
                        ' '.join(['MPICH'] + lines[1].split()[1:]))
        self.command = ' '.join(launcher)

    def measure(self, *what):
        return parse(self.name, run([*self.launcher, self.program,
                                     *map(str, what)]))


class Gloo:
    """Gloo over TCP; bcube and halving_doubling are other algorithms."""

    def __init__(self, options, folder, algorithm='ring'):
        self.name = 'gloo' if algorithm == 'ring' else f'gloo-{algorithm}'
        self.collectives = GLOO if algorithm == 'ring' else ['allreduce']
        self.n, self.algorithm, self.folder = options.n, algorithm, folder
        self.program = os.path.join(folder, 'peer_gloo')
        if not os.path.exists(self.program):
            build_gloo(os.path.join(HERE, 'peer_gloo.cc'), folder,
                       self.program)
        self.version = 'Gloo ' + package_version('libgloo0')
        self.command = f'peer_gloo {algorithm}, TCP on lo'

    def measure(self, *what):
        where = tempfile.mkdtemp(dir=self.folder)
        ranks = [subprocess.Popen(
            [self.program, str(rank), str(self.n), where, self.algorithm,
             *map(str, what)], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) for rank in range(self.n)]
        try:
            said = [rank.communicate(timeout=RUN_SECONDS) for rank in ranks]
        except subprocess.TimeoutExpired:
            raise Failed(f'{self.name}: not done in {RUN_SECONDS} s')
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        for rank, (_, err) in zip(ranks, said):
            if rank.returncode != 0:
                raise Failed(f'{self.name}: status {rank.returncode}\n{err}')
        return parse(self.name, said[0][0])


def package_version(package):
    done = subprocess.run(['dpkg-query', '-W', '-f', '${Version}', package],
                          text=True, capture_output=True, check=False)
    return done.stdout or 'of unknown version'


def installed(peer):
    if peer == 'gloo':
        if not shutil.which('g++') or not shutil.which('gcc'):
            return False
        done = subprocess.run(['g++', '-E', '-x', 'c++', '-'], text=True,
                              input='#include <gloo/context.h>\n',
                              capture_output=True, check=False)
        return done.returncode == 0
    return all(shutil.which(f'{tool}.{peer}') for tool in ('mpicc', 'mpirun'))


def make_peers(options, folder):
    peers = []
    for name in options.peers:
        if not installed(name):
            print(f'compare_peers.py: {name} is skipped: not installed '
                  f'(Debian: {PACKAGES[name]})', file=sys.stderr)
        elif name == 'gloo':
            kinds = ['ring'] + (['bcube', 'halving_doubling']
                                if options.all_algorithms else [])
            peers += [Gloo(options, folder, kind) for kind in kinds]
        else:
            peers.append(Mpi(name, options, folder))
            if name == 'openmpi' and options.all_algorithms:
                peers += [Mpi(name, options, folder, number)
                          for number in range(1, 7)]
    return peers


def number_of_bytes(text):
    unit = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def sizes(text):
    """MIN:MAX:FACTOR, the last two as they may be."""
    words = text.split(':')
    try:
        low = number_of_bytes(words[0])
        high = number_of_bytes(words[1]) if len(words) > 1 else low
        factor = int(words[2]) if len(words) > 2 else 4
    except ValueError:
        low = high = factor = 0
    if len(words) > 3 or low < 1 or high < low or factor < 2:
        raise argparse.ArgumentTypeError(
            f'found "{text}", valid is MIN:MAX:FACTOR such as 8:64M:4, whole '
            'numbers with K, M or G')
    return low, high, factor


def names_from(valid):
    def names(text):
        found = valid if text == 'all' else text.split(',')
        for name in found:
            if name not in valid:
                raise argparse.ArgumentTypeError(
                    f'found "{name}", valid are all or some of '
                    f'{",".join(valid)}')
        return found
    return names


def arguments():
    parser = argparse.ArgumentParser(
        description='Compares coll_bench with MPI and Gloo in interleaved '
        'runs, and prints tables in Markdown.')
    parser.add_argument('--build', default='build',
                        help='Meson build folder with collrun and coll_bench')
    parser.add_argument('-n', type=int, default=2, metavar='RANKS',
                        help='ranks (default 2)')
    parser.add_argument('--rounds', type=int, default=5,
                        help='runs of each program for each group of sizes '
                        '(default 5)')
    parser.add_argument('--collective', default=['allreduce'], metavar='LIST',
                        type=names_from(COLLECTIVES),
                        help='some of ' + ','.join(COLLECTIVES) + ', or all '
                        '(default allreduce)')
    parser.add_argument('--sizes', type=sizes, default=sizes('8:64M:4'),
                        metavar='MIN:MAX:FACTOR',
                        help='in bytes (default 8:64M:4)')
    parser.add_argument('--memory', choices=['heap', 'malloc'],
                        default='heap', help='of coll_bench (default heap)')
    parser.add_argument('--peers', type=names_from(PEERS), default=PEERS,
                        metavar='LIST',
                        help='some of ' + ','.join(PEERS) + ' (default all)')
    parser.add_argument('--all-algorithms', action='store_true',
                        help="allreduce also with each of Open MPI's tuned "
                        "algorithms 1 to 6 and each of Gloo's")
    parser.add_argument('--json', metavar='FILE',
                        help='write every p50 there too')
    options = parser.parse_args()
    if options.n < 1 or options.rounds < 1:
        parser.error('-n and --rounds: valid is a whole number of at least 1')
    for name in ('collrun', 'coll_bench'):
        if not os.access(os.path.join(options.build, name), os.X_OK):
            parser.error(f'--build {options.build}: found no {name} there; '
                         'valid is a folder that Meson built')
    return options


def groups(low, high, factor):
    """Splits the sizes into runs: (least, largest) of each."""
    found, size = [], low
    while size <= high:
        last = found[-1] if found else []
        if (not last or len(last) == GROUP_SIZES
                or sum(last) + size > GROUP_BYTES):
            found.append([size])
        else:
            last.append(size)
        size *= factor
    return [(group[0], group[-1]) for group in found]


def compare(options, coll, peers, collective):
    """bytes -> name -> list of p50, one a round; and what failed."""
    programs = [('libcoll', coll)] + [(peer.name, peer) for peer in peers
                                      if collective in peer.collectives]
    found, failed = {}, {}
    low, high, factor = options.sizes
    if collective == 'barrier':
        high = low
    for low, high in groups(low, high, factor):
        for number in range(options.rounds):
            turn = number % len(programs)
            for name, program in programs[turn:] + programs[:turn]:
                if name in failed:
                    continue
                try:
                    p50s = program.measure(collective, low, high, factor)
                except Failed as error:
                    if name == 'libcoll':
                        raise
                    failed[name] = str(error)
                    continue
                for size, p50 in p50s.items():
                    found.setdefault(size, {}).setdefault(name, []).append(p50)
            print(f'# {collective}, {low}..{high} bytes: round {number + 1} '
                  f'of {options.rounds}', file=sys.stderr)
    return found, failed


def ratios_of(row, name):
    """Of each round; of a peer that failed there are fewer rounds, or it has
    none in some."""
    return [peer / ours for ours, peer in zip(row['libcoll'],
                                              row.get(name, [])) if peer]


def spread(ratios):
    if not ratios:
        return '- | -'
    return (f'{statistics.median(ratios):.2f} | {min(ratios):.2f} .. '
            f'{max(ratios):.2f}')


def print_table(collective, found, names):
    print(f'\n{collective}: p50 in us, and what each peer takes for one of '
          'libcoll\n')
    print('| bytes | libcoll | ' + ' | '.join(names) + ' | '
          + ' | '.join(f'{name} / libcoll | spread' for name in names) + ' |')
    print('|---:' * (2 + 3 * len(names)) + '|')
    for size, row in sorted(found.items()):
        p50s = [f'{statistics.median(row[name]):.2f}' if row.get(name)
                else '-' for name in ['libcoll', *names]]
        print(f'| {size} | ' + ' | '.join(p50s) + ' | '
              + ' | '.join(spread(ratios_of(row, name)) for name in names)
              + ' |')
    sys.stdout.flush()


def best_ratio(row, names):
    """The least of the peers' median ratios. Not the ratio of medians: a
    process may be slow all its life for the pages that it got, and rounds, but
    not medians, have such processes side by side."""
    best = [statistics.median(ratios_of(row, name)) for name in names
            if ratios_of(row, name)]
    return min(best) if best else None


def print_summary(nranks, all_found, names):
    """Collective x size; in bold where a peer was faster."""
    sizes_found = sorted({size for collective, found in all_found.items()
                          for size in found if collective != 'barrier'})
    print(f'\n{nranks} ranks: what the fastest of {", ".join(names)} takes for '
          'one of libcoll; bold: libcoll is slower\n')
    print('| bytes | ' + ' | '.join(map(str, sizes_found)) + ' |')
    print('|---' + '|---:' * len(sizes_found) + '|')
    for collective, found in all_found.items():
        if collective != 'barrier':
            print(f'| {collective} | '
                  + ' | '.join(cell(found.get(size), names)
                               for size in sizes_found) + ' |')
    for row in all_found.get('barrier', {}).values():
        print(f'\nbarrier: {cell(row, names)}')
    sys.stdout.flush()


def cell(row, names):
    ratio = best_ratio(row, names) if row else None
    if ratio is None:
        return ''
    return f'**{ratio:.2f}**' if ratio < 1 else f'{ratio:.2f}'


def results_of(collective, found, names):
    rows = []
    for size, row in sorted(found.items()):
        peers = {}
        for name in names:
            ratios = ratios_of(row, name)
            if ratios:
                peers[name] = {
                    'p50_us': row[name], 'ratio': statistics.median(ratios),
                    'ratio_min': min(ratios), 'ratio_max': max(ratios)}
        rows.append({'collective': collective, 'bytes': size,
                     'p50_us': row['libcoll'], 'peers': peers})
    return rows


def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        for line in file:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.machine()


def write_json(options, machine, peers, results):
    temporary = f'{options.json}.{os.getpid()}.tmp'
    with open(temporary, 'w', encoding='utf-8') as file:
        json.dump({'format': 'compare_peers 1', 'machine': machine,
                   'date': time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime()),
                   'nranks': options.n, 'rounds': options.rounds,
                   'memory': options.memory,
                   'peers': {peer.name: {'version': peer.version,
                                         'command': peer.command}
                             for peer in peers},
                   'results': results}, file, indent=1)
    os.rename(temporary, options.json)


def compare_all(options, folder):
    peers = make_peers(options, folder)
    if not peers:
        print('compare_peers.py: skipped: no peer is installed')
        return 77
    machine = f'{cpu_name()}, {os.cpu_count()} CPUs'
    print(f'f32 sum, {options.n} ranks, memory {options.memory}, {machine}, '
          f'{time.strftime("%Y-%m-%d", time.gmtime())}; {options.rounds} '
          'interleaved rounds\n')
    for peer in peers:
        print(f'- {peer.name}: {peer.version}, `{peer.command}`')
    coll, results, status = Coll(options, folder), [], 0
    all_found = {}
    for collective in options.collective:
        found, failed = compare(options, coll, peers, collective)
        names = [peer.name for peer in peers
                 if any(peer.name in row for row in found.values())]
        print_table(collective, found, names)
        all_found[collective] = found
        results += results_of(collective, found, names)
        for name, why in failed.items():
            print(f'compare_peers.py: {collective}: {name} failed: {why}',
                  file=sys.stderr)
            status = 1
        if options.json:
            write_json(options, machine, peers, results)
    if len(all_found) > 1:
        print_summary(options.n, all_found, [peer.name for peer in peers])
    return status


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return compare_all(options, folder)
        except Failed as error:
            sys.exit(f'compare_peers.py: {error}')


if __name__ == '__main__':
    sys.exit(main())
