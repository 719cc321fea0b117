#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks in NUMA nodes of a machine that is described: usage
partition_ranks.py BUILD. Where they are changes no bit, what a node cannot
hold is refused, and memory that the system cannot place does no harm.
"""
import functools
import os
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect  # noqa: E402
from train_kit import train  # noqa: E402

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


@case
def test_more_than_a_node_has_is_refused():
    roomy = functools.partial(machine, 1)
    for nranks in 1, 2:
        said = refused(nranks, **roomy('1MB'))
        expect('MiB that all ranks in NUMA node 0 of rank' in said
               and 'valid are the 1 MiB that it has' in said, nranks, said)
    # Each fits, both do not.
    need = float(refused(1, **roomy('1MB')).split('found ')[1].split()[0])
    room = f'{round(1.5 * need)}MiB'
    train('fits', 1, '--partition', steps=2, **roomy(room))
    refused(2, **roomy(room))


@case
def test_a_rank_in_several_nodes_is_refused():
    """Without collrun, which binds each to one."""
    if len(os.sched_getaffinity(0)) < 2:
        print('# there is one processor only', flush=True)
        return
    done = subprocess.run(
        [train_kit.TRAIN, *train_kit.OPTIONS, '--steps', '2', '--partition'],
        env={**os.environ, **machine(2, '64GB', 1)}, capture_output=True,
        text=True, timeout=60)
    expect(done.returncode == 2 and 'NUMA nodes that it may run on, valid is'
           in done.stderr, done.returncode, done.stderr)


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
