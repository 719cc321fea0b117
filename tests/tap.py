# SPDX-License-Identifier: MIT
"""The Test Anything Protocol, as Meson reads it, for tests in Python."""
import functools
import os
import sys
import time
import traceback


class Wrong(Exception):
    """A claim that does not hold."""


class Skip(Exception):
    """A claim cannot be tried here: str() says why."""


def expect(holds, *words):
    if not holds:
        raise Wrong(' '.join(map(str, words)))


THOROUGH = 'TESTS_THOROUGH' in os.environ  # as tests/thorough.h has it


def cases(every, part):
    """All in the slow suite, a part in the fast one."""
    return every if THOROUGH else part


CASES = []


def case(function):
    """Marks a test; its name is the claim."""
    CASES.append((claim(function), function))
    return function


def slow_case(function):
    """Marks a test of the slow suite only: the fast one has no time for it."""
    return case(function) if THOROUGH else function


TRIES = 4


def of_times(function):
    """Marks a test of how long something takes, which other programs and the
    machine's host only make longer: it holds if one of some tries does."""
    @functools.wraps(function)
    def tried():
        for _ in range(TRIES - 1):
            try:
                return function()
            except (Wrong, AssertionError) as why:
                print('# again:', why, flush=True)
        return function()
    return tried


IDLE = 0.9  # of the processors' time


def is_idle(seconds=0.3):
    """Whether other programs leave the processors alone."""
    def ticks():
        with open('/proc/stat', encoding='ascii') as file:
            numbers = [int(word) for word in file.readline().split()[1:9]]
        return numbers[3] + numbers[4], sum(numbers)
    idle, every = ticks()
    time.sleep(seconds)
    later_idle, later = ticks()
    return later_idle - idle >= IDLE * (later - every)


def give_up(why):
    """After some tries, as what is measured on a busy machine may be wrong. A
    lab that ends keeps the kernel busy for a moment."""
    if not any(is_idle() for _ in range(10)):
        raise Skip(f'other programs take the processors; {why}')
    raise Wrong(why)


def claim(function):
    return function.__name__.removeprefix('test_').replace('_', ' ')


def chosen(cases):
    """Those whose claim has one of the words behind the build folder on the
    command line; all of them if there is none."""
    words = [word.replace('_', ' ') for word in sys.argv[2:]]
    return [c for c in cases if not words or any(w in c[0] for w in words)]


def run(cases=None):
    """Runs pairs of a claim and a function without arguments, those marked if
    none are given. Whatever one raises fails its claim. Returns the exit
    status."""
    cases = CASES if cases is None else cases
    failed = 0
    print(f'1..{len(cases)}', flush=True)
    for number, (words, function) in enumerate(cases, 1):
        began, verdict, end = time.monotonic(), 'ok', ''
        try:
            function()
        except Skip as why:
            end = f' # SKIP {why}'
        except Exception:  # pylint: disable=broad-except
            verdict = 'not ok'
            failed += 1
            traceback.print_exc()  # meson shows what goes to stderr
        print(f'{verdict} {number} - {words}{end}\n'
              f'# {time.monotonic() - began:.1f} s', flush=True)
    return int(failed > 0)
