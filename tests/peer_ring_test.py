#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/peer_ring.c: usage peer_ring_test.py BUILD_FOLDER [WORD...]."""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

PROGRAM = os.path.join(os.path.abspath(sys.argv[1]), 'peer_ring')


def ring(nranks, low, high):
    """What rank 0 prints, a list of numbers a line."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen(
            [PROGRAM, str(rank), str(nranks), folder, 'allreduce', str(low),
             str(high), '8'], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) for rank in range(nranks)]
        try:
            said = [rank.communicate(timeout=50) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    for rank, (_, error) in zip(ranks, said):
        tap.expect(rank.returncode == 0, error)
    return [[float(word) for word in line.split()]
            for line in said[0][0].splitlines()]


@tap.case
def test_sums_are_right():
    """Also where some ranks have no chunk, or one that is longer; and of more
    than sockets keep."""
    for nranks, low, high, nrows in (3, 4, 256, 3), (2, 8 << 20, 8 << 20, 1):
        rows = ring(nranks, low, high)
        tap.expect(len(rows) == nrows, rows)
        for size, least, p50, p99, most, wrong, _ in rows:
            tap.expect(low <= size <= high and wrong == 0, nranks, rows)
            tap.expect(0 < least <= p50 <= p99 <= most, rows)


@tap.case
def test_bad_words_are_told():
    for words in ((), ('0', '1', '/tmp', 'allreduce', '4', '4', '2'),
                  ('2', '2', '/tmp', 'allreduce', '4', '4', '2'),
                  ('0', '2', '/tmp', 'reduce', '4', '4', '2')):
        done = subprocess.run([PROGRAM, *words], text=True,
                              capture_output=True, check=False)
        tap.expect(done.returncode == 2 and 'usage' in done.stderr, words,
                   done.stderr)


sys.exit(tap.run(tap.chosen(tap.CASES)))
