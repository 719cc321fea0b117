#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What sw_table prints stands in the README of trainer/kernels/sw: usage
sw_table_test.py SW_TABLE. Speaks TAP."""
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402

README = (pathlib.Path(__file__).resolve().parent.parent / 'trainer' / 'kernels'
          / 'sw' / 'README.md')
TABLES = '## How fast it would be'


def rows_of(text):
    return [line for line in text.splitlines() if line.startswith('|')]


@tap.case
def test_the_tables_are_those_of_the_cost_model():
    printed = rows_of(subprocess.run([sys.argv[1]], text=True, check=True,
                                     capture_output=True).stdout)
    text = README.read_text(encoding='utf-8')
    written = rows_of(text[text.index(TABLES):])
    tap.expect(len(printed) > 28, printed)
    for one, other in zip(printed, written):
        tap.expect(one == other, f'{README.name} has\n{other}\nand not\n{one}')
    tap.expect(len(printed) == len(written), len(printed), len(written))


sys.exit(tap.run())
