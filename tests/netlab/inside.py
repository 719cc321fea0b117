# SPDX-License-Identifier: MIT
"""Runs the cases of a test where a Lab can be made, as tap.py does."""
import functools
import os
import sys

import lab as netlab

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # noqa: E402

SECONDS = 850  # all cases together


def tried_with(*settings):
    """Marks a test, tried with each of these (name, setting); its name is the claim."""
    def mark(function):
        tap.CASES.extend((f'{tap.claim(function)}: {name}',
                          functools.partial(function, setting))
                         for name, setting in settings)
        return function
    return mark


def note(*words):
    print('#', *words, flush=True)


def _tried(function):
    def run():
        try:
            function()
        except netlab.Skip as why:
            raise tap.Skip(why) from why
    return run


def run(cases):
    """Those that the command line chooses. Returns the exit status."""
    why = netlab.missing()
    if why:
        print(f'1..0 # SKIP {why}')
        return 0
    cases = [(claim, _tried(function)) for claim, function in cases]
    return netlab.run_inside(lambda: tap.run(tap.chosen(cases)), SECONDS)
