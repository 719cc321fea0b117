#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a transfer of 50 ms costs a rank that computes meanwhile, and what of a
step of training is spent in waiting.

    tests/netlab/overlap_test.py BUILD [WORD...]

Two hosts on wires of 640 Mbit/s, of which one computes, so that a processor is
free. Speaks TAP. With words, only cases whose name has one of them. The best of
some attempts counts: what else runs on the machine only makes it worse.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import inside  # noqa: E402
from inside import tap  # noqa: E402
import lab as netlab  # noqa: E402
import steps  # noqa: E402
from tap import case, expect, of_times  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
ATTEMPTS = 4


def overlap(progress):
    """Alone, compute and both in ms; percent hidden, and of a core, idle."""
    lab = netlab.Lab(netlab.Layout(hosts=2, rate=640e6))
    try:
        outs, _ = steps.launched(
            lab, [f'{BUILD}/overlap_job', str(4_000_000), '9'], 30,
            COLL_PROGRESS=progress, COLL_ADAPT='off',
            COLL_ALGO='recursive_doubling')
    finally:
        lab.close()
    alone, compute, both, hidden, idle = map(float, outs[0].split())
    print(f'# {progress}: {alone} ms alone, {compute} ms of arithmetic, '
          f'{both} ms both: {hidden} % hidden; idle {idle} % of a core',
          flush=True)
    return hidden, idle


@case
def test_nine_tenths_are_hidden_by_the_helper():
    found = []
    while len(found) < ATTEMPTS and (not found or max(found)[0] < 90):
        found.append(overlap('thread'))
    expect(max(found)[0] >= 90, 'hidden at best', max(found)[0], '%')
    expect(min(idle for _, idle in found) < 1, 'it is not idle', found)


@case
@of_times
def test_without_it_little_is():
    expect(overlap('off')[0] < 50, 'more than half without a helper')


def share(strategy):
    """Percent of LeNet's training that rank 0 waits for others. It sleeps longer
    in each step than the sum of the weights takes, so that processors do not
    matter."""
    lab = netlab.Lab(netlab.Layout(hosts=2, rate=100e6))
    try:
        outs, _ = steps.launched(
            lab, [f'{BUILD}/coll_train', '--net', 'lenet', '--data',
                  'synthetic:128x1x28x28', '--batch', '8', '--steps', '8',
                  '--lr', '0.01', '--strategy', strategy, '--delay', '0:300'],
            60, COLL_PROGRESS='thread')
    finally:
        lab.close()
    percent = float(re.search(r'communication ([0-9.]+) %', outs[0])[1])
    print(f'# {strategy}: {percent} %', flush=True)
    return percent


@case
@of_times
def test_sync_easgd3_hides_what_1_and_2_wait_for():
    one, two, three = (share(f'sync-easgd{n}') for n in (1, 2, 3))
    expect(three < 0.5 * two and three < 0.5 * one, one, two, three)


if __name__ == '__main__':
    sys.exit(inside.run(tap.CASES))
