#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library claims of real networks, on hosts that are imitated.

    tests/netlab/claims_test.py BUILD [WORD...]

A link that becomes slow in mid-run changes the choice within 100 calls, on all
ranks at the same one; ranks agree whatever the times are; and what crosses the
link between two groups is what the formulas say. Speaks TAP. With words, only
cases whose name has one of them.

Links are slow enough that two busy processors do not matter.
"""
import collections
import os
import re
import socket
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import inside  # noqa: E402
from inside import note, tap, tried_with  # noqa: E402
import lab as netlab  # noqa: E402
import steps  # noqa: E402
from tap import expect, give_up  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])


# --- a trunk becomes slow -----------------------------------------------------

BEFORE, AFTER, SIZE = 150, 200, 64 << 10
WITHIN = 100         # calls until the choice has changed
WORST = 1.25         # of the choice against the best
PORT, TRUNK, SLOW = 200e6, 400e6, 40e6
GROUPS = {'COLL_CLUSTER': 'rack:2 node:2 core:1'}
# Of these, one moves least through ports and the other least over the trunk, so
# the choice must change. Among all there are some that do both: then what is
# held at the end must be good, and the choice change only if it was not.
RIVALS = {'direct_scatter': 18, 'leaders': 18}
# How often each is run alone; 18 is enough to come to the other order of ranks.
FORCED = dict.fromkeys(
    ('hierarchical', 'halving_doubling_near', 'swing', 'halving_doubling',
     'binary_blocks', 'ring_segmented', 'ring', 'direct_scatter'), 18)


def figures(run):
    """Candidate -> median time after the change, of runs that follow one of the
    same candidate, if there are: others leave bytes in the trunk's queue, which
    the next one has to wait for."""
    after_own = collections.defaultdict(list)
    after_any = collections.defaultdict(list)
    for k in range(BEFORE + WITHIN, len(run.us)):
        candidate = run.operations[k].candidate
        after_any[candidate].append(run.us[k])
        if candidate == run.operations[k - 1].candidate:
            after_own[candidate].append(run.us[k])
    return {candidate: statistics.median(after_own[candidate]
                                         if len(after_own[candidate]) > 1
                                         else us)
            for candidate, us in after_any.items()}


def changes(operations):
    """(calls since the trunk is slow, candidate): what was held for the best,
    first before, then from when on. A trial says nothing of it."""
    path = []
    for k, o in enumerate(operations[:BEFORE + AFTER]):
        if o.trial or (path and path[-1][1] == o.candidate):
            continue
        if k < BEFORE:
            path.clear()
        path.append((k - BEFORE, o.candidate))
    return path


@tried_with(('two rivals', (RIVALS, {
              'COLL_ALGO': f'allreduce:{",".join(RIVALS)}', **GROUPS})),
            ('eight algorithms, groups described', (FORCED, {
                'COLL_ALGO': f'allreduce:{",".join(FORCED)}', **GROUPS})),
            ('eight algorithms, groups not described', (FORCED, {
                'COLL_ALGO': f'allreduce:{",".join(FORCED)}'})))
def a_slow_trunk_changes_the_choice_within_100_calls(setting):
    for _ in range(STARTS):
        wrong = wrong_choice(*setting)
        if not wrong:
            return
        note('another start:', wrong)
    give_up(f'in none of {STARTS} starts: {wrong}')


def wrong_choice(forced, settings):
    """What is wrong after a trunk became slow, or None."""
    run, old, new = slowed(forced, settings)
    found = figures(run)
    for candidate in sorted(found, key=found.get):
        note(f'{found[candidate] / 1e3:6.1f} ms', *candidate,
             '(before)' if candidate == old else '',
             '(after)' if candidate == new else '')
    if old not in found or new not in found:
        return f'not forced: {old} or {new}'
    least = min(found.values())
    if found[new] > WORST * least:
        return f'{found[new]:.0f} us, least {least:.0f}'
    if found[old] > WORST * least:
        first = changes(run.operations)[1][0]
        return None if first <= WITHIN else f'no change within {WITHIN} calls'
    note('what was chosen before is good on the slow trunk too')
    return None if forced is FORCED else 'the rivals are none'


def slowed(forced, settings):
    """A run in which the trunk becomes slow, and what was held before and at
    the end."""
    lab = netlab.Lab(netlab.Layout(groups=(2,), rate=PORT, trunk_rate=(TRUNK,)))
    words = [f'{BEFORE}x{SIZE}', '@slow', f'{AFTER}x{SIZE}']
    for name, times in forced.items():
        words += [f'=allreduce:{name}', f'{times}x{SIZE}']
    try:
        run = steps.run(lab, BUILD, words,
                        {'slow': lambda: lab.set_rate('trunk0', SLOW)}, 60,
                        **settings)
    finally:
        lab.close()
    note(run.probe)
    path = changes(run.operations)
    for calls, candidate in path[1:]:
        note(f'after {calls} calls', *candidate)
    return run, path[0][1], path[-1][1]


# --- random operations --------------------------------------------------------

OPERATIONS, LONGEST, NAPS = 3000, 32 << 10, 16
FLICKER_SECONDS = 0.3


def flicker(lab, wire, fast, slow, over):
    """One wire changes all the time: no two ranks measure alike."""
    rates = [slow, fast]
    while not over.wait(FLICKER_SECONDS):
        lab.set_rate(wire, rates[0])
        rates.reverse()


@tried_with(('5 hosts', (5, (), 'host1', False, 3)),
            ('2 + 2 hosts', (4, (2,), 'trunk0', False, 4)),
            ('2 + 2 hosts, described', (4, (2,), 'trunk0', True, 5)))
def ranks_agree_on_every_operation(setting):
    hosts, groups, wire, described, seed = setting
    lab = netlab.Lab(netlab.Layout(hosts=hosts, groups=groups, rate=1e9,
                                   trunk_rate=(500e6,)))
    over = threading.Event()
    thread = threading.Thread(target=flicker,
                              args=(lab, wire, 500e6, 50e6, over), daemon=True)
    env = GROUPS if described else {}
    thread.start()
    try:
        _, errs = steps.launched(
            lab, [f'{BUILD}/soak', str(OPERATIONS), str(seed), str(LONGEST),
                  str(NAPS)], 200, **env)
    finally:
        over.set()
        thread.join()
        lab.close()
    operations = steps.agreed(errs)
    trials = collections.Counter(o.collective for o in operations if o.trial)
    kept = {o.candidate for o in operations
            if o.collective == 'allreduce' and not o.trial}
    note(f'seed {seed}: {len(operations)} operations, {trials.total()} trials, '
         f'{trials["reduce"]} of reduce, {trials["broadcast"]} of broadcast, '
         f'{len(kept)} candidates held for best in allreduces')
    expect(len(operations) == OPERATIONS, len(operations), 'operations')
    expect(trials.total() > 100, 'too little was chosen')
    for collective in 'reduce', 'broadcast':
        expect(trials[collective] > 10, collective, 'had no trials')


# --- bytes over the trunk -----------------------------------------------------

# Ethernet, IPv4, and TCP with its timestamps, in each frame that is counted;
# what tbf leaves whole is one frame of up to 64 KiB.
FRAME = 14 + 20 + 32
# Beyond that: UCX's headers, 5 to 60 bytes for each 8 KiB or rendezvous, and
# the hello of two barriers at the ends of what is counted.
UCX_SHARE, UCX_BYTES = 1 / 500, 4096
MIB = 1 << 20
# Vectors that cross the trunk each way in an allreduce of 2 + 2 ranks. Halving
# far exchanges half a vector with the other group first, and gets it back last:
# each of 2 ranks S/2 twice. Dealt round robin it is halving near.
CROSSING = {('hierarchical', 'block'): 1, ('hierarchical', 'given'): 2,
            ('hierarchical', 'round_robin'): 2,
            ('halving_doubling_near', 'block'): 1,
            ('halving_doubling', 'round_robin'): 1,
            ('ring', 'block'): 1.5, ('ring', 'given'): 1.5,
            ('ring_segmented', 'block'): 1.5, ('ring_segmented', 'given'): 1.5}
FIXED = {'COLL_ADAPT': 'off'}
DESCRIBED = {'COLL_CLUSTER': 'rack:2 (50us 31.25MB/s shared) '
                             'node:2 (50us 125MB/s) core:1', **FIXED}
# Groups and their link are found in most, on a busy machine in some; and now
# and then TCP sends a segment twice.
STARTS = 5


def count_bytes(size, times, forced, settings):
    """For each of the words "forced": the operation, and what it moved each
    way over the trunk."""
    lab = netlab.Lab(netlab.Layout(groups=(2,), rate=1e9, trunk_rate=(250e6,)))
    readings, words, actions = [], [], {}

    def read():
        readings.append(lab.counters()['trunks'][0])
    for i, rules in enumerate(forced):
        words += [f'={rules}', f'1x{size}', f'@from{i}', f'{times}x{size}',
                  f'@to{i}']
        actions.update({f'from{i}': read, f'to{i}': read})
    try:
        run = steps.run(lab, BUILD, words, actions, 60, **settings)
    finally:
        lab.close()
    note(run.probe)
    found = []
    for i in range(len(forced)):
        begin, end = readings[2 * i:2 * i + 2]
        moved = [end[way]['bytes'] - begin[way]['bytes']
                 - FRAME * (end[way]['frames'] - begin[way]['frames'])
                 for way in ('forth', 'back')]
        found.append((run.operations[i * (times + 1)], moved))
    return found


def as_formula(operation, moved, times):
    """Whether it moved what its formula says; False too where there is none."""
    share = CROSSING.get(operation.candidate)
    if not share:
        note('no formula for', *operation.candidate)
        return False
    payload = share * operation.bytes * times
    note(*operation.candidate, f'{share} S each way; TCP carried',
         *(f'{m / payload:.5f}' for m in moved), 'of that')
    most = payload * (1 + UCX_SHARE) + UCX_BYTES * times
    return all(payload <= m <= most for m in moved)


@tried_with(('1 MiB, described', (MIB, 8, DESCRIBED)),
            ('1 MiB, found by measuring', (MIB, 8, FIXED)),
            ('16 MiB, described', (16 * MIB, 1, DESCRIBED)),
            ('16 MiB, found by measuring', (16 * MIB, 1, FIXED)))
def the_trunk_carries_what_the_formula_says(setting):
    size, times, settings = setting
    free = 'allreduce:^direct'  # never taken for such lengths
    for _ in range(STARTS):
        found = count_bytes(size, times, [free, 'allreduce:ring'], settings)
        right = [as_formula(*each, times) for each in found]
        if all(right) and CROSSING[found[0][0].candidate] == 1:
            return
        note('not that, or more than S each way')
    give_up('in no start S each way, and 1.5 S in the ring')


# --- the order of the ranks ---------------------------------------------------

PAIRS, FASTER = 10, 9
BLOCK, DEALT = (f'=allreduce:halving_doubling@{order}'
                for order in ('block', 'round_robin'))


# Halving far sends half of the vector first: between neighbours in block order
# that is across, dealt round robin inside. So S crosses as often as a group has
# hosts, or once.
@tried_with(('2 x 2 hosts', 2), ('2 x 4 hosts', 4))
def halving_far_is_faster_with_ranks_dealt_over_groups(each):
    settings = {'COLL_CLUSTER': 'rack:2 (50us 31.25MB/s shared) '
                                f'node:{each} (50us 125MB/s) core:1', **FIXED}
    pair = [BLOCK, f'1x{MIB}', DEALT, f'1x{MIB}']
    for _ in range(STARTS):
        lab = netlab.Lab(netlab.Layout(hosts=2 * each, groups=(2,), rate=1e9,
                                       trunk_rate=(250e6,)))
        try:
            run = steps.run(lab, BUILD, pair * (1 + PAIRS), {}, 60, **settings)
        finally:
            lab.close()
        expect([o.order for o in run.operations]
               == ['block', 'round_robin'] * (1 + PAIRS), run.operations)
        block, dealt = run.us[2::2], run.us[3::2]  # the first pair connects
        faster = sum(d < b for d, b in zip(dealt, block))
        note(f'{faster} of {PAIRS} faster; medians',
             *(f'{statistics.median(us) / 1e3:.1f} ms' for us in (block, dealt)))
        if faster >= FASTER:
            return
    give_up(f'in none of {STARTS} starts')


# --- windows ------------------------------------------------------------------

def may_receive(count):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, count)
        return probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def windows(layout, settings):
    """Of host 0's connections, after some messages: half of the bytes that
    may have been received, as the kernel counts them."""
    lab, found = netlab.Lab(netlab.Layout(
        delay_switch=f'{BUILD}/delay_switch', **layout)), []

    def look():
        done = subprocess.run([*lab.enter(0), 'ss', '-tmnH'], check=True,
                              capture_output=True, text=True)
        found.extend(int(count) // 2
                     for count in re.findall(r',rb(\d+),', done.stdout))
    try:
        steps.run(lab, BUILD, ['=allreduce:ring', f'10x{1 << 20}', '@look'],
                  {'look': look}, 60, **settings)
    finally:
        lab.close()
    note(sorted(found))
    return found


@tried_with(('1 Gbit/s', ({'rate': 1e9}, {}, (128, 512))),
            ('100 Mbit/s and 5 ms', ({'rate': 100e6, 'delay': 5e-3}, {},
                                     (1024, 1024))),
            ('1 Gbit/s, as the user has it', ({'rate': 1e9},
                                              {'UCX_TCP_RCVBUF': '600k'},
                                              (600, 600))))
def slow_ports_get_windows_by_their_delay(setting):
    layout, settings, (least, most) = setting
    if may_receive(1 << 20) < 2 << 20:
        raise tap.Skip('net.core.rmem_max is less than 1 MiB')
    found = windows(layout, settings)
    tap.expect(sum(least << 10 <= window <= most << 10 for window in found)
               >= 2, found)


if __name__ == '__main__':
    sys.exit(inside.run(tap.CASES))
