#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares coll_bench with MPIs, Gloo and a plain ring between hosts, f32 sum.

    benchmarks/compare_network.py [--build build] [--hosts 4]
        [--ranks-per-host 1] [--layouts flat,rate,delay,trunk|all] [--rounds 3]
        [--collective allreduce|all] [--sizes 64:64M:8] [--peers LIST]
        [--refill] [--budget-seconds 1800] [--json FILE]

The hosts are network namespaces of this machine, as tests/netlab makes them, so
root is needed. Layouts: flat (one switch without limits), rate (1 Gbit/s at
each port), delay (that and 100 us between any two hosts), trunk (two groups,
1 Gbit/s at each port and 250 Mbit/s between the groups).

As compare_peers.py does, each round runs all programs one right after the other
on the same group of sizes, and who begins changes from round to round; printed
are medians of p50, and of each round's ratio to coll_bench. Rounds go over all
sizes before the next begins, so that a run whose time is up has all sizes that
there was time for, with fewer rounds. The time is shared between layouts.

libcoll's jobs keep what they learn for those after them, as they do unless they
are told otherwise; here for each layout from nothing.

All ranks share this machine's CPUs with the kernel's work on packets: what it
says of small messages is about that as well. Peers that are not installed are
left out. Ports with a rate let a burst pass at once, so who is slower to start
the next operation has more of it, and may take less time than the wire (the last
column); with --refill every program sleeps before each operation until the burst
has come back (coll_bench --pause). Status: 0 compared,
77 there can be no such network here or no peer is installed, 1 something failed.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, '..', 'tests', 'netlab')]
import compare_peers  # noqa: E402
from compare_peers import Failed, ratios_of  # noqa: E402
import lab as netlab  # noqa: E402
import launch  # noqa: E402

GBIT, TRUNK, DELAY = 1e9, 250e6, 100e-6
LAYOUTS = {
    'flat': ('one switch, no limits', {}),
    'rate': ('one switch, 1 Gbit/s ports', {'rate': GBIT}),
    'delay': ('one switch, 1 Gbit/s ports, 100 us one way',
              {'rate': GBIT, 'delay': DELAY}),
    'trunk': ('two groups, 1 Gbit/s ports, 250 Mbit/s trunk',
              {'rate': GBIT, 'groups': (2,), 'trunk_rate': (TRUNK,)}),
    'trunk_delay': ('two groups, 1 Gbit/s ports, 250 Mbit/s trunk, 100 us and '
                    '100 us more over the trunk',
                    {'rate': GBIT, 'groups': (2,), 'trunk_rate': (TRUNK,),
                     'delay': DELAY, 'trunk_delay': (DELAY,)}),
}
ALGORITHMS = range(1, 7)  # of Open MPI's allreduce
PEERS = (['openmpi', *(f'openmpi-{a}' for a in ALGORITHMS), 'openmpi-ucx',
          'mpich', 'gloo-ring', 'gloo-bcube', 'gloo-halving_doubling',
          'plain-ring'])
# The peer for Gloo names its interface in its source, for one host; here each
# host's is another. The header comes first, so that only the call is changed.
GLOO_SOURCE = '''
#include "gloo/transport/tcp/device.h"
#include <cstdlib>
#define CreateDevice(where) \\
    CreateDevice((where.iface = std::getenv("PEER_INTERFACE"), where))
#include "peer_gloo.cc"
'''


# --- programs -----------------------------------------------------------------


class Clock:
    """When a layout's time is up, and how long a run may take."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def patience(self):
        """Of one run: it may end a little late."""
        return max(10, min(compare_peers.RUN_SECONDS, self.left() + 30))


class OutOfTime(Failed):
    """A run that took longer than there was time."""


class Coll:
    """coll_bench itself."""

    name = 'libcoll'

    def __init__(self, options, lab, clock):
        self.options, self.lab, self.clock = options, lab, clock
        self.program = os.path.abspath(
            os.path.join(options.build, 'coll_bench'))
        self.path = os.path.join(netlab.FILES, 'coll.json')
        self.store = tempfile.mkdtemp(dir=netlab.FILES)
        self.version, self.command = 'this build', 'coll_bench'
        self.collectives = compare_peers.COLLECTIVES

    def measure(self, collective, low, high, factor, pause):
        """bytes -> p50 in microseconds."""
        words = [self.program, collective, '-b', low, '-e', high, '-f', factor,
                 '--pause', pause, '--memory', self.options.memory, '--json',
                 self.path]
        output(self.lab, [str(word) for word in words], self.clock,
               COLL_STORE=self.store)
        with open(self.path, encoding='utf-8') as file:
            return {row['bytes']: row['time_us']['p50']
                    for row in json.load(file)['results']}


def output(lab, program, clock, **env):
    """What rank 0 prints."""
    ranks, out, err, ended = launch.run(lab, program, clock.patience(), **env)
    if not ended:
        raise OutOfTime('not done in time')
    for rank in ranks:
        if rank.status != 0:
            raise Failed(f'rank {rank.number} ended with {rank.status}\n'
                         f'{err[rank.number].strip()}')
    return out[0]


class Mpi:
    """An MPI by its own launcher. openmpi-3: with that algorithm."""

    def __init__(self, name, folder, lab, clock):
        family, _, kind = name.partition('-')
        self.name, self.lab, self.clock = name, lab, clock
        self.collectives = (['allreduce'] if kind.isdigit()
                            else compare_peers.COLLECTIVES)
        self.program = os.path.join(folder, f'peer_{family}')
        if not os.path.exists(self.program):
            compare_peers.build_mpi(family, self.program)
        extra = []
        if kind.isdigit():
            extra = ['--mca', 'coll_tuned_use_dynamic_rules', '1', '--mca',
                     'coll_tuned_allreduce_algorithm', kind]
        self.words = launch.mpi(
            lab, name if kind == 'ucx' else family, extra)
        self.version = family + ' ' + compare_peers.package_version(
            {'openmpi': 'openmpi-bin'}.get(family, family))
        at = next(i for i, word in enumerate(self.words)
                  if word.startswith('mpirun.'))
        self.command = ' '.join(self.words[at:])

    def measure(self, *what):
        try:
            done = subprocess.run(
                [*self.words, self.program, *map(str, what)], text=True,
                stdin=subprocess.DEVNULL, capture_output=True, check=False,
                timeout=self.clock.patience())
        except subprocess.TimeoutExpired:
            raise OutOfTime('not done in time')
        finally:
            self.lab.kill_strays()
        if done.returncode != 0:
            raise Failed(f'status {done.returncode}\n{done.stderr.strip()}')
        return compare_peers.parse(self.name, done.stdout)


class Gloo:
    """Gloo over TCP; its ranks meet in a folder."""

    def __init__(self, name, folder, lab, clock):
        self.name, self.algorithm = name, name.partition('-')[2]
        self.lab, self.clock = lab, clock
        self.collectives = (compare_peers.GLOO
                            if self.algorithm == 'ring' else ['allreduce'])
        self.program = os.path.join(folder, 'peer_gloo')
        if not os.path.exists(self.program):
            self.build(folder)
        self.version = 'Gloo ' + compare_peers.package_version('libgloo0')
        self.command = f'peer_gloo {self.algorithm}'

    def build(self, folder):
        source = os.path.join(folder, 'peer_gloo_network.cc')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(GLOO_SOURCE)
        compare_peers.build_gloo(source, folder, self.program)

    def measure(self, *what):
        program = [self.program, self.algorithm, *map(str, what)]
        return compare_peers.parse(self.name, output(
            self.lab, launch.gloo(self.lab, program), self.clock,
            PEER_INTERFACE='eth0'))


class Ring:
    """peer_ring.c, of this build: a ring over sockets, and nothing else."""

    name, collectives = 'plain-ring', ['allreduce']
    version, command = 'this build', 'peer_ring'

    def __init__(self, options, lab, clock):
        self.program = os.path.abspath(os.path.join(options.build,
                                                    'peer_ring'))
        self.lab, self.clock = lab, clock

    def measure(self, *what):
        return compare_peers.parse(self.name, output(
            self.lab, launch.gloo(self.lab, [self.program, *map(str, what)]),
            self.clock, PEER_INTERFACE='eth0'))


def make_programs(options, folder, lab, clock):
    programs = [Coll(options, lab, clock)]
    for name in options.peers:
        family = name.partition('-')[0]
        if name == Ring.name:
            programs.append(Ring(options, lab, clock))
        elif compare_peers.installed(family):
            kind = Gloo if family == 'gloo' else Mpi
            programs.append(kind(name, folder, lab, clock))
        else:
            print(f'compare_network.py: {name} is skipped: not installed '
                  f'(Debian: {compare_peers.PACKAGES[family]})',
                  file=sys.stderr)
    return programs


# --- rounds -------------------------------------------------------------------


def pause(options, layout):
    """Nanoseconds for each byte in which the slowest link lets pass what an
    operation sends: two vectors of each rank beyond it."""
    if not options.refill:
        return 0
    what = LAYOUTS[layout][1]
    ranks = options.hosts * options.ranks_per_host
    beyond = {'trunk_rate': ranks // 2, 'rate': options.ranks_per_host}
    rates = {'rate': what.get('rate'),
             'trunk_rate': what.get('trunk_rate', (None,))[0]}
    return max([16e9 * beyond[link] / rate for link, rate in rates.items()
                if rate], default=0)


def compare(options, programs, collective, clock, layout):
    """bytes -> name -> {round: p50}; what failed; whether time was up."""
    programs = [program for program in programs
                if collective in program.collectives]
    found, failed = {}, {}
    low, high, factor = options.sizes
    if collective == 'barrier':
        high = low
    for number in range(options.rounds):
        turn = number % len(programs)
        for least, largest in compare_peers.groups(low, high, factor):
            for program in programs[turn:] + programs[:turn]:
                if clock.left() <= 0:
                    return found, failed, True
                if program.name in failed:
                    continue
                try:
                    p50s = program.measure(collective, least, largest, factor,
                                           pause(options, layout))
                except OutOfTime as error:
                    if clock.left() <= 0:
                        return found, failed, True
                    failed[program.name] = str(error)
                    continue
                except Failed as error:
                    if program.name == 'libcoll':
                        raise
                    failed[program.name] = str(error)
                    continue
                for size, p50 in p50s.items():
                    found.setdefault(size, {}).setdefault(
                        program.name, {})[number] = p50
            print(f'# {layout}, {collective}, {least}..{largest} bytes: round '
                  f'{number + 1} of {options.rounds}, {clock.left():.0f} s '
                  'left', file=sys.stderr)
    return found, failed, False


def in_step(found):
    """bytes -> name -> list of p50, as compare_peers.py has them: only rounds
    in which libcoll was measured, so that ratios are of one round. A peer's
    list has None where it has no result."""
    rows = {}
    for size, row in found.items():
        rounds = sorted(row.get('libcoll', {}))
        if rounds:
            rows[size] = {name: [p50s.get(n) for n in rounds]
                          for name, p50s in row.items()}
    return rows


def median(p50s):
    known = [p50 for p50 in p50s if p50]
    return f'{statistics.median(known):.4g}' if known else '-'


def wire_us(options, layout, collective, size):
    """What an allreduce takes of the slowest link at its rate, without headers:
    2 (h - 1) / h S of each of h hosts' ports, S of the link between two groups.
    An operation that takes less lives on what its port saved in between."""
    what = LAYOUTS[layout][1]
    if collective != 'allreduce' or 'rate' not in what:
        return '-'
    seconds = 2 * (options.hosts - 1) / options.hosts * size * 8 / what['rate']
    if 'trunk_rate' in what:
        seconds = max(seconds, size * 8 / what['trunk_rate'][0])
    return f'{1e6 * seconds:.4g}'


def print_table(options, layout, collective, rows, names):
    print(f'\n{layout}, {collective}: p50 in us; in brackets what a peer takes '
          'for one of libcoll, median of the rounds; wire: what the slowest '
          'link takes at its rate\n')
    print('| bytes | rounds | libcoll | ' + ' | '.join(names)
          + ' | best peer / libcoll | wire |')
    print('|---:' * (5 + len(names)) + '|')
    for size, row in sorted(rows.items()):
        cells, medians = [], []
        for name in names:
            found = ratios_of(row, name)
            if found:
                medians.append(statistics.median(found))
                cells.append(f'{median(row[name])} ({medians[-1]:.2f})')
            else:
                cells.append('-')
        best = f'{min(medians):.2f}' if medians else '-'
        print(f'| {size} | {len(row["libcoll"])} | {median(row["libcoll"])} | '
              + ' | '.join(cells) + f' | {best} | '
              + f'{wire_us(options, layout, collective, size)} |')
    sys.stdout.flush()


def results_of(layout, collective, rows, names):
    return [{'layout': layout, **row} for row in
            compare_peers.results_of(collective, rows, names)]


def write_json(options, versions, results):
    if not options.json:
        return
    temporary = f'{options.json}.{os.getpid()}.tmp'
    with open(temporary, 'w', encoding='utf-8') as file:
        json.dump({'format': 'compare_network 1',
                   'machine': machine(),
                   'date': time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime()),
                   'hosts': options.hosts,
                   'ranks_per_host': options.ranks_per_host,
                   'place': options.place, 'rounds': options.rounds,
                   'memory': options.memory,
                   'layouts': {name: LAYOUTS[name][0]
                               for name in options.layouts},
                   'peers': versions, 'results': results}, file, indent=1)
    os.rename(temporary, options.json)


def machine():
    return f'{compare_peers.cpu_name()}, {os.cpu_count()} CPUs'


def compare_layout(options, folder, layout, clock, results, versions):
    """0, or 1 if a program failed, or 77 without a peer."""
    words, what = LAYOUTS[layout]
    lab = netlab.Lab(netlab.Layout(
        hosts=options.hosts, ranks_per_host=options.ranks_per_host,
        place=options.place,
        delay_switch=os.path.join(options.build, 'delay_switch'), **what))
    status = 0
    try:
        programs = make_programs(options, folder, lab, clock)
        if len(programs) == 1:
            return 77
        versions.update({p.name: {'version': p.version, 'command': p.command}
                         for p in programs[1:]})
        print(f'\n## {layout}: {words}')
        share = clock.left() / len(options.collective)
        for number, collective in enumerate(options.collective):
            part = Clock(min(clock.left(), share))
            for program in programs:
                program.clock = part
            found, failed, late = compare(options, programs, collective, part,
                                          layout)
            rows = in_step(found)
            names = [p.name for p in programs[1:]
                     if any(p.name in row for row in rows.values())]
            print_table(options, layout, collective, rows, names)
            if late:
                print('\nThe time was up: see the column rounds.', flush=True)
            results += results_of(layout, collective, rows, names)
            write_json(options, versions, results)
            for name, why in failed.items():
                print(f'compare_network.py: {layout}, {collective}: {name} '
                      f'failed: {why}', file=sys.stderr)
                status = 1
            share = clock.left() / max(
                1, len(options.collective) - number - 1)
    finally:
        lab.close()
    return status


def compare_all(options):
    folder = tempfile.mkdtemp(dir=netlab.FILES)
    end = time.monotonic() + options.budget_seconds
    print(f'f32 sum, {options.hosts} hosts with {options.ranks_per_host} '
          f'rank(s) each, {options.place}, memory {options.memory}, '
          f'{machine()}, {time.strftime("%Y-%m-%d", time.gmtime())}; up to '
          f'{options.rounds} interleaved rounds')
    results, versions, statuses = [], {}, []
    for number, layout in enumerate(options.layouts):
        left = end - time.monotonic()
        clock = Clock(left / (len(options.layouts) - number))
        try:
            statuses.append(compare_layout(options, folder, layout, clock,
                                           results, versions))
        except (Failed, netlab.Failed) as error:
            print(f'compare_network.py: {layout}: {error}', file=sys.stderr)
            statuses.append(1)
    print()
    for name, what in versions.items():
        print(f'- {name}: {what["version"]}, `{what["command"]}`')
    if 77 in statuses:
        print('compare_network.py: skipped: no peer is installed')
        return 77
    return max(statuses)


def arguments():
    names = compare_peers.names_from
    parser = argparse.ArgumentParser(
        description='Compares coll_bench with MPIs and Gloo between imitated '
        'hosts, in interleaved runs; prints tables in Markdown.')
    add = parser.add_argument
    add('--build', default='build', help='Meson build folder')
    add('--hosts', type=int, default=4, help='(default 4)')
    add('--ranks-per-host', type=int, default=1, help='(default 1)')
    add('--place', choices=['block', 'round_robin'], default='block',
        help='which host a rank is on (default block)')
    add('--layouts', type=names(list(LAYOUTS)), metavar='LIST',
        default=['flat', 'rate', 'delay', 'trunk'],
        help='some of ' + ','.join(LAYOUTS) + ', or all (default '
        'flat,rate,delay,trunk)')
    add('--rounds', type=int, default=3, help='(default 3)')
    add('--collective', type=names(compare_peers.COLLECTIVES),
        default=['allreduce'], metavar='LIST',
        help='some of ' + ','.join(compare_peers.COLLECTIVES)
        + ', or all (default allreduce)')
    add('--sizes', type=compare_peers.sizes, metavar='MIN:MAX:FACTOR',
        default=compare_peers.sizes('64:64M:8'),
        help='in bytes (default 64:64M:8)')
    add('--memory', choices=['heap', 'malloc'], default='heap',
        help='of coll_bench (default heap)')
    add('--peers', type=names(PEERS), default=PEERS, metavar='LIST',
        help='some of ' + ','.join(PEERS) + ' (default all)')
    add('--refill', action='store_true',
        help='before each operation wait until ports have their burst back')
    add('--budget-seconds', type=float, default=1800, metavar='SECONDS',
        help='for all (default 1800)')
    add('--json', metavar='FILE', help='write every p50 there too')
    options = parser.parse_args()
    if options.rounds < 1 or options.ranks_per_host < 1:
        parser.error('--rounds, --ranks-per-host: valid is at least 1')
    if not 2 <= options.hosts <= netlab.HOSTS_MAX:
        parser.error(f'--hosts: valid is 2 to {netlab.HOSTS_MAX}')
    if not os.access(os.path.join(options.build, 'coll_bench'), os.X_OK):
        parser.error(f'--build {options.build}: found no coll_bench there; '
                     'valid is a folder that Meson built')
    if options.json:
        options.json = os.path.abspath(options.json)
    return options


def main():
    options = arguments()
    return netlab.run_inside(lambda: compare_all(options),
                             options.budget_seconds + 120)


if __name__ == '__main__':
    sys.exit(main())
