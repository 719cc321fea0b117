#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks in NUMA nodes of a machine that is described: usage
partition_ranks.py BUILD. Where they are changes no bit, what a node cannot
hold is refused, and memory that the system cannot place does no harm.
"""
import contextlib
import functools
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect  # noqa: E402
from train_kit import distance, path, train, weights  # noqa: E402

# Its processors are those that are here; its memory need not be.
MACHINE = 'Package:1 NUMANode:{}(memory={}) Core:{} PU:1'


def machine(nodes, memory, cores=2):
    return {'HWLOC_SYNTHETIC': MACHINE.format(nodes, memory, cores),
            'HWLOC_THISSYSTEM': '1'}


def refused(nranks, *options, **settings):
    done = train_kit.run(nranks, '--steps', '2', '--partition', *options,
                         **settings)
    expect(done.returncode == 2, done.returncode, done.stdout, done.stderr)
    return done.stderr


@case
def test_it_changes_no_bit():
    for nranks in 1, 2:
        whole = train('whole', nranks)
        expect(train('part', nranks, '--partition', **machine(1, '64GB'))
               == whole, nranks)


def in_two_nodes(name, *options):
    """Of one core each; where the system cannot place memory, ranks say that it
    is near by first touch. The checkpoint's bytes."""
    if not {0, 1} <= os.sched_getaffinity(0):
        raise tap.Skip('processors 0 and 1 are not here')
    done = train_kit.run(2, '--checkpoint', path(name), '--partition',
                         *options, **machine(2, '64GB', 1))
    expect(done.returncode == 0, done.stdout, done.stderr)
    said = done.stderr.splitlines()
    expect(len(said) <= 2 and all(
        line.startswith(('coll_train: rank 0: ', 'coll_train: rank 1: '))
        and '--partition: the system does not say where memory comes from'
        in line for line in said), said)
    expect(said or os.path.exists('/sys/devices/system/node/node1'), said)
    with open(path(name), 'rb') as file:
        return file.read()


@case
def test_memory_in_two_nodes_changes_no_bit():
    """Where there is one it cannot be placed."""
    steps = '--steps', str(train_kit.STEPS)
    expect(in_two_nodes('apart', *steps) == train('beside', 2), 'bits')


@case
def test_two_nodes_add_up_what_one_does():
    """One step that is nearly all gradient; to 1e-6."""
    far = '--lr', '100'
    train('one', 1, '--partition', *far, steps=1, **machine(1, '64GB'))
    in_two_nodes('two', '--steps', '1', *far)
    off = distance(weights('two'), weights('one'))
    moved = distance(weights('one'), initial())
    expect(off < 1e-6 and moved > 10, off, moved)


def initial():
    train('first', 1, '--lr', '1e-12', steps=1)
    return weights('first')


@case
def test_more_than_a_node_has_is_refused():
    roomy = functools.partial(machine, 1)
    for nranks in 1, 2:
        said = refused(nranks, **roomy('1MB'))
        expect('MiB that all ranks in NUMA node 0 of rank' in said
               and 'valid are the 1 MiB that it has' in said, nranks, said)
    # Each fits, both do not.
    room = f'{round(1.5 * needed_mib(1))}MiB'
    train('fits', 1, '--partition', steps=2, **roomy(room))
    refused(2, **roomy(room))


def needed_mib(nranks, *options):
    said = refused(nranks, *options, **machine(1, '1MB'))
    return float(said.split('found ')[1].split()[0])


@contextlib.contextmanager
def large_net():
    """Of so many weights that near ranks would have one copy, in MiB."""
    small = train_kit.NET
    train_kit.NET = small.replace('dense 40', 'dense 8000')
    try:
        yield (6 * 25 + 6 + 6 * 7 * 7 * 8000 + 8000 + 10 * 8000 + 10) / 2 ** 18
    finally:
        train_kit.NET = small


@case
def test_each_partition_has_weights_of_its_own():
    with large_net():
        for options, common in (([], True), (['--partition'], False)):
            done = train_kit.run(2, '--steps', '2', '--profile', *options,
                                 **machine(1, '64GB'))
            expect(done.returncode == 0, done.stdout, done.stderr)
            expect(('once for 2 ranks' in done.stdout) == common, options,
                   done.stdout)


@case
def test_what_strategies_take_counts():
    """A centre and a sum; on three ranks three centres, and on the one that
    serves two workers a message of each and an answer to each."""
    with large_net() as weights_mib:
        for nranks, strategy, vectors in ((1, 'sync-easgd3', 2),
                                          (3, 'async-easgd', 3 + 2 * 2)):
            batch = '--global-batch', '24'
            more = (needed_mib(nranks, *batch, '--strategy', strategy)
                    - needed_mib(nranks, *batch)) / weights_mib
            expect(abs(more - vectors) < 0.3, strategy, more)


@case
def test_a_rank_in_several_nodes_is_refused():
    """Without collrun, which binds each to one."""
    if len(os.sched_getaffinity(0)) < 2:
        raise tap.Skip('there is one processor only')
    done = subprocess.run(
        [train_kit.TRAIN, *train_kit.OPTIONS, '--steps', '2', '--partition'],
        env={**os.environ, **machine(2, '64GB', 1)}, capture_output=True,
        text=True, timeout=60)
    expect(done.returncode == 2 and 'NUMA nodes that it may run on, valid is'
           in done.stderr, done.returncode, done.stderr)


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
