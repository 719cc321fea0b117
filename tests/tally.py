#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the claims in Meson's test logs: prints "PASSED FAILED SKIPPED".

A test that speaks TAP counts once for each of its lines; any other test, and
one that ended without a word, counts once. Which failed, and why others were
skipped, goes to stderr.
"""
import json
import re
import sys

passed = failed = skipped = 0
for log in sys.argv[1:]:
    with open(log, encoding="utf-8") as lines:
        for test in map(json.loads, lines):
            tap = re.findall(r"^(not )?ok\b(.*)", test.get("stdout", ""), re.M)
            skips = sum("# SKIP" in rest.upper() for _, rest in tap)
            bad = sum(bool(no) and "# SKIP" not in rest.upper()
                      for no, rest in tap)
            good = len(tap) - skips - bad
            if test["result"] == "SKIP":
                good, skips = 0, max(skips, 1)
                said = test.get("stdout", "").strip().splitlines() or ["?"]
                print(f'  skipped: {test["name"]}: {said[-1]}', file=sys.stderr)
            elif test["result"] in ("OK", "EXPECTEDFAIL"):
                good = good if tap else 1
            else:
                bad = max(bad, 1)
            if bad:
                print(f'  FAILED: {test["name"]}: {test["result"]}', file=sys.stderr)
            passed, failed, skipped = passed + good, failed + bad, skipped + skips
print(passed, failed, skipped)
