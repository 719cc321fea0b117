#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Several networks between hosts, and several connections on each: bytes.

    tests/netlab/rails_test.py BUILD [WORD...]

What goes where is read from the counters of the ports; times are printed, and
claimed where wires are slow enough that busy processors do not matter. Speaks
TAP. With words, only cases whose name has one of them.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import inside  # noqa: E402
from inside import note, tap  # noqa: E402
import lab as netlab  # noqa: E402
import steps  # noqa: E402
from tap import case, expect, of_times  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
MIB = 1 << 20
FIXED = {'COLL_CALIBRATE': 'off', 'COLL_ADAPT': 'off',
         'COLL_ALGO': 'allreduce:ring',
         'COLL_LOG': 'select:debug,comm:info,ucx:debug'}


def sent(counters):
    """Bytes that all hosts sent, rail by rail."""
    return [sum(port['tx']['bytes'] for port in rail)
            for rail in counters['rails']]


def allreduces(hosts, size, times=5, rails=2, rail_rate=(), **env):
    """Bytes on each rail of some ring allreduces, and the least time in us:
    only a busy machine makes it longer."""
    lab = netlab.Lab(netlab.Layout(hosts=hosts, rails=rails, rate=100e6,
                                   rail_rate=rail_rate))
    counted = []

    def count():
        counted.append(sent(lab.counters()))
    try:
        run = steps.run(lab, BUILD, [f'1x{size}', '@begin', f'{times}x{size}',
                                     '@end'],
                        {'begin': count, 'end': count}, 60, **{**FIXED, **env})
    finally:
        lab.close()
    found = [after - before for before, after in zip(*counted)]
    us = min(run.us[1:])
    note(f'{hosts} hosts, {size} bytes, {rails} rails {rail_rate} {env}: '
         f'{us / 1e3:.1f} ms, {[round(b / times) for b in found]} bytes each')
    return found, us


def connections(**more):
    """Pairs of ranks: who connected to whom in some ring allreduces."""
    settings = {key: more.pop(key) for key in list(more) if key.isupper()}
    lab = netlab.Lab(netlab.Layout(**{'hosts': 2, **more}))
    try:
        _, errs = steps.launched(
            lab, [f'{BUILD}/steps_job', netlab.FILES, f'3x{MIB}'], 60,
            **{**FIXED, **settings})
    finally:
        lab.close()
    found = sorted((int(a), int(b)) for a, b in
                   re.findall(r'ucx: rank (\d+) connects to rank (\d+)',
                              '\n'.join(errs)))
    note(more, settings, 'connections:', *found)
    return found


@case
@of_times
def two_equal_rails_carry_half_each_and_take_half_the_time():
    for hosts in (2, 4):
        _, alone = allreduces(hosts, 4 * MIB, rails=1)
        found, us = allreduces(hosts, 4 * MIB)
        ring = 2 * (hosts - 1) * 4 * MIB * 5
        for carried in found:
            expect(0.48 * ring < carried < 0.56 * ring, carried, 'of', ring)
        expect(us < 0.7 * alone, us, 'us,', alone, 'by one')


@case
@of_times
def unequal_rails_are_no_slower_than_the_better_one():
    _, alone = allreduces(2, 4 * MIB, rails=1)
    for rail_rate in (25e6, 5e6):
        found, us = allreduces(2, 4 * MIB, rail_rate=(rail_rate,))
        expect(us < 1.1 * alone, us, 'us,', alone, 'by one')
        expect(found[1] < 0.35 * found[0], found)


@case
@of_times
def what_is_measured_and_learned_uses_both_rails_too():
    usual = {'COLL_CALIBRATE': 'on', 'COLL_ADAPT': 'on', 'COLL_ALGO': ''}
    _, alone = allreduces(2, 4 * MIB, rails=1, **usual)
    for rail_rate, part, most in ((), 0.5, 0.7), ((25e6,), 0.2, 0.95):
        found, us = allreduces(2, 4 * MIB, rail_rate=rail_rate, **usual)
        expect(abs(found[1] / sum(found) - part) < 0.05, found)
        expect(us < most * alone, us, 'us,', alone, 'by one')


@case
def short_messages_keep_to_the_first_rail():
    found, _ = allreduces(2, 64 << 10, times=20)
    expect(found[1] < 0.01 * found[0], found)


@case
def lanes_move_the_same_bytes_by_more_connections():
    one, _ = allreduces(2, 4 * MIB, rails=1)
    for rails in (1, 2):
        found, _ = allreduces(2, 4 * MIB, rails=rails, COLL_UCX_LANES='4')
        expect(abs(sum(found) - sum(one)) < 0.02 * sum(one), found, one)
        made = connections(rails=rails, COLL_UCX_LANES='4')
        expect(made == [(0, 1)] * 4 * rails + [(1, 0)] * 4 * rails, made)


@case
def ranks_of_other_lanes_are_told():
    lab = netlab.Lab(netlab.Layout(hosts=2))
    try:
        steps.launched(lab, lambda r: [
            'env', f'COLL_UCX_LANES={r + 1}', f'{BUILD}/steps_job',
            netlab.FILES, '1x64'], 20)
    except tap.Wrong as error:
        expect('COLL_UCX_LANES' in str(error), error)
    else:
        raise tap.Wrong('1 and 2 lanes go together')
    finally:
        lab.close()


@case
def a_wrong_number_of_lanes_is_told():
    lab = netlab.Lab(netlab.Layout(hosts=2))
    try:
        for wrong in ('9', '0', 'two'):
            try:
                steps.run(lab, BUILD, ['1x64'], {}, 20, COLL_UCX_LANES=wrong)
            except tap.Wrong as error:
                expect('COLL_UCX_LANES' in str(error), error)
            else:
                raise tap.Wrong(f'{wrong} lanes are taken')
    finally:
        lab.close()


def ring_and_tree(n):
    """Who sends to whom: a ring, and the tree by which prices come at start."""
    pairs = {(r, (r + 1) % n) for r in range(n)}
    for r in range(1, n):
        pairs.add((r & (r - 1), r))
    return pairs


@case
def a_ring_of_eight_ranks_connects_each_to_the_next_one():
    expect(connections(hosts=8) == sorted(ring_and_tree(8)))


if __name__ == '__main__':
    sys.exit(inside.run(tap.CASES))
