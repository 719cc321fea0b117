# SPDX-License-Identifier: MIT
"""benchmarks/neon_estimate.py from outside; prints TAP. Skips where there is no
compiler for Arm or no llvm-mca."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks', 'neon_estimate.py')


def run(*options):
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        done = subprocess.run([sys.executable, SCRIPT, '--json', file.name,
                               *options], text=True, timeout=60,
                              capture_output=True, check=False)
        if done.returncode == 77:
            return done, None
        tap.expect(done.returncode == 0, done.stdout, done.stderr)
        with open(file.name, encoding='utf-8') as text:
            return done, json.load(text)


@tap.case
def test_all_loops_are_found_whole():
    done, rows = run()
    if rows is None:
        raise tap.Skip(done.stdout.strip())
    loops = {row['loop'] for row in rows}
    tap.expect({f'tile_2_{n}' for n in range(1, 7)} <= loops, loops)
    for row in rows:
        _, halves, count = row['loop'].split('_')
        # 8 channels are 2 registers, and each meets each position or channel;
        # a turn may do so several times
        registers = 2 * int(halves)
        tap.expect(row['fma'] > 0
                   and row['fma'] % (registers * int(count)) == 0, row)
        tap.expect(0 < row['percent_of_peak'] < 101, row)
        tap.expect(row['instructions'] > row['fma'], row)
    tap.expect('not a measurement' in done.stdout, done.stdout)


@tap.case
def test_the_largest_tiles_keep_the_units_busy():
    done, rows = run('--cpus', 'cortex-a72')
    if rows is None:
        raise tap.Skip(done.stdout.strip())
    percent = {row['loop']: row['percent_of_peak'] for row in rows}
    for loop in 'tile_2_6', 'tile_3_4', 'tile_4_3', 'sum_2_6':
        tap.expect(percent[loop] > 90, loop, percent)


@tap.case
def test_missing_tools_are_named():
    done, rows = run('--mca', 'no-such-mca', '--cc', 'true')
    tap.expect(rows is None and 'no-such-mca is not installed' in done.stdout,
               done)


sys.exit(tap.run())
