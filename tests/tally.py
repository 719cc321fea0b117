#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the claims in Meson's test logs: prints "PASSED FAILED SKIPPED".

    tests/tally.py LOG [LATER...]    a test in a later log replaces its earlier try
    tests/tally.py --failed LOG      instead, the names of the tests that failed

A test that speaks TAP counts once for each of its lines; any other test, and
one that ended without a word, counts once. Which failed, with what they said, and
why others were skipped, goes to stderr.
"""
import json
import re
import sys

WELL = ('OK', 'EXPECTEDFAIL', 'SKIP')
LINES = 30  # of what a failed test said


def read(log):
    """The tests of a log by name, without their suites."""
    with open(log, encoding='utf-8') as lines:
        return {test['name'].rpartition(' / ')[2]: test
                for test in map(json.loads, lines)}


def tell(test, how):
    """What fails, then the end of what else it said."""
    print(f'  {how}: {test["name"]}: {test["result"]}', file=sys.stderr)
    said = test.get('stdout', '').splitlines()
    bad = [line for line in said if line.startswith('not ok')]
    rest = test.get('stderr', '').splitlines() or said
    for line in bad + rest[-LINES:]:
        print('   |', line, file=sys.stderr)


def count(test):
    """Claims that passed, failed, were skipped."""
    tap = re.findall(r'^(not )?ok\b(.*)', test.get('stdout', ''), re.M)
    skips = sum('# SKIP' in rest.upper() for _, rest in tap)
    bad = sum(bool(no) and '# SKIP' not in rest.upper() for no, rest in tap)
    good = len(tap) - skips - bad
    if test['result'] == 'SKIP':
        said = test.get('stdout', '').strip().splitlines() or ['?']
        print(f'  skipped: {test["name"]}: {said[-1]}', file=sys.stderr)
        return 0, bad, max(skips, 1)
    if test['result'] in WELL:
        return (good if tap else 1), bad, skips
    return good, max(bad, 1), skips


def main(logs):
    if logs[0] == '--failed':
        for name, test in read(logs[1]).items():
            if test['result'] not in WELL:
                print(name)
        return
    tests = read(logs[0])
    for log in logs[1:]:
        for name, test in read(log).items():
            tell(tests[name], 'failed at first')
            tests[name] = test
    totals = [0, 0, 0]
    for test in tests.values():
        found = count(test)
        if found[1]:
            tell(test, 'FAILED')
        totals = [a + b for a, b in zip(totals, found)]
    print(*totals)


main(sys.argv[1:])
