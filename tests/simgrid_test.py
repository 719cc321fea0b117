#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libcoll's simulator beside SimGrid's, which somebody else wrote.

Usage: simgrid_test.py BUILD_DIR; prints TAP. Skips where SimGrid is missing.
The figures of both should agree but for rounding, which can turn two ends that
fall together into two events: so ten per cent, the figure that was set before
either was run.
"""
import argparse
import math
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                'simgrid'))
import compare  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SIZES = [1024, 1000003, 64 * compare.MIB]  # a prime: chunks differ
RUNS = [(platform, ranks) for platform in compare.CHECKED
        for ranks in (64, 256, 1024)]
# A ring of 1024 ranks is two million messages: compare.py alone has it.
LARGE = [case for case in compare.CASES if not case.startswith('ring')]
# Our choices against those of the MPIs' rules.
CHOSEN_SIZES, NO_WORSE = [1024, 65536, compare.MIB], 1.02


def simulators_agree(platform, ranks, cases, sizes):
    """None, or what is farther off than it may be."""
    cluster = compare.PLATFORMS[platform](ranks)
    rows = compare.replay(BUILD, cluster, sizes, cases, 200)
    wrong = []
    for row in rows:
        line = (f"{row['case']} of {row['bytes']} bytes: ours "
                f"{row['ours']:.6g} s, SimGrid's {row['simgrid']:.6g} s")
        if abs(math.log(row['ratio'])) > math.log(1 + compare.TOLERANCE):
            wrong.append(line)
    if len(rows) != len(sizes) * len(cases):
        wrong.append(f'{len(rows)} figures')
    return '; '.join(wrong)


def selectors_run():
    """SMPI's recursive doubling is six rounds of a known price."""
    times = compare.smpi(BUILD, 'host:64 (2us 10GB/s)', 64, [4096],
                         ['allreduce:rdb'], 30)
    expected = 6 * (2e-6 + 4096 / 10e9)
    return ('' if abs(times[4096] / expected - 1) < 1e-3
            else f'{times[4096]:.6g} s instead of {expected:.6g} s')


def choices_are_as_good(platform, ranks):
    """Ours against each selector's, as compare.py's tables have them."""
    work = compare.Work(argparse.Namespace(
        build=BUILD, sizes=CHOSEN_SIZES, budget_seconds=200))
    work.choose(platform, ranks, ['chosen'])
    for selector in compare.SELECTORS:
        work.select(platform, ranks, selector)
    wrong = []
    for size in CHOSEN_SIZES:
        row = work.choices[platform, ranks, size]
        wrong += [f"{size} bytes: {row['algorithm']} takes "
                  f"{row['replayed']:.6g} s, {selector} {row[selector]:.6g} s"
                  for selector in compare.SELECTORS
                  if row['replayed'] > NO_WORSE * row[selector]]
    return '; '.join(wrong)


def main():
    missing = compare.have(BUILD)
    if missing:
        print(f'1..0 # SKIP {missing}')
        return 0
    tests = [(f'{platform}, {ranks} ranks: simulators agree within 10 %',
              lambda p=platform, n=ranks: simulators_agree(
                  p, n, compare.CASES if n < 1024 else LARGE,
                  SIZES if n < 1024 else [compare.MIB]))
             for platform, ranks in RUNS]
    tests.append(('SMPI on this platform takes what a formula says',
                  selectors_run))
    tests.append(('fat tree, 64 ranks: no selector of SMPI is faster by 2 %',
                  lambda: choices_are_as_good('fat tree', 64)))
    print(f'1..{len(tests)}')
    failed = 0
    for number, (claim, test) in enumerate(tests, 1):
        try:
            wrong = test()
        except compare.Failed as why:
            wrong = str(why)
        print(f"{'not ok' if wrong else 'ok'} {number} - {claim}", flush=True)
        if wrong:
            failed += 1
            print('# ' + wrong.replace('\n', '\n# '))
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
