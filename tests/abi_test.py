# SPDX-License-Identifier: MIT
"""Programs that were built with an older header go on to work.

    tests/abi_test.py LIBRARY
    ninja -C build abi_baseline

The first compares a library, by libabigail's abidiff, with tests/abi.xml: what
programs may rely on, the functions and the types that the public headers have.
More of them may come; what is there may only change with the library's soname.
Speaks TAP. The second writes tests/abi.xml anew, so that what is new is kept
from then on too.
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINE = os.path.join(HERE, 'abi.xml')
MAY_GROW = os.path.join(HERE, 'abi.suppressions')
HEADERS = os.path.join(HERE, '..', 'include', 'coll')
LIBRARY = sys.argv[1]
MACHINE = 'x86_64'  # the baseline's
ERROR, CHANGE = 3, 4  # bits of abidiff's exit status


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def described():
    """What abidw says of the library, but for where it was built."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'abi.xml')
        subprocess.run(
            ['abidw', '--headers-dir', HEADERS, '--exported-interfaces-only',
             '--drop-private-types', '--drop-undefined-syms',
             '--no-corpus-path', '--no-comp-dir-path', '--no-show-locs',
             '--no-elf-needed', '--no-parameter-names', '--no-architecture',
             '--no-write-default-sizes', '--type-id-style', 'hash',
             '--out-file', path, LIBRARY], check=True)
        return re.sub(r" path='[^']*/(libcoll|topo)/", r" path='\1/",
                      read(path))


def broken(old, new):
    """What a program that knows the old may not find in the new."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ('old', 'new')]
        for path, text in zip(paths, (old, new)):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        done = subprocess.run(
            ['abidiff', '--no-added-syms', '--suppressions', MAY_GROW, *paths],
            text=True, capture_output=True, check=False)
    expect(not done.returncode & ERROR, done.stdout, done.stderr)
    return done.stdout if done.returncode & CHANGE else ''


def compared():
    """The baseline and the library, where they can be compared."""
    if not shutil.which('abidw') or not shutil.which('abidiff'):
        raise tap.Skip('no abidw here (Debian: abigail-tools)')
    if platform.machine() != MACHINE:
        raise tap.Skip(f'the baseline is of {MACHINE}')
    now = described()
    if '<parameter ' not in now:
        raise tap.Skip('the library was built without -g: nothing says what '
                       'types its functions take')
    return read(BASELINE), now


@case
def test_what_programs_rely_on_is_there():
    old, new = compared()
    expect(not broken(old, new), broken(old, new))


def altered(text, pattern, put):
    """The first that is found, so that the test does not pass by itself."""
    changed, times = re.subn(pattern, put, text, count=1, flags=re.S)
    expect(times == 1, pattern, 'is not there')
    return changed


@case
def test_what_breaks_programs_is_told_and_what_is_new_is_not():
    _, now = compared()
    gone = now.replace('coll_barrier', 'coll_barrier_of_old')
    expect('coll_barrier_of_old' in broken(gone, now), 'a lost function')
    for what, pattern, put in (
            ('a constant', r"(name='COLL_ERR_BUSY' value=')-9", r'\g<1>-10'),
            ('the place of a member',
             r"(name='coll_statistics' .*?offset-in-bits=')64", r'\g<1>96'),
            ('a parameter',
             r"(function-decl name='coll_comm_count'[^\n]*\n)([^\n]*\n)",
             r'\1\2\2')):
        expect(broken(altered(now, pattern, put), now), what)
    fewer = altered(now, r"<elf-symbol name='coll_barrier'[^\n]*\n", '')
    fewer = altered(fewer, r"<function-decl name='coll_barrier'"
                    r'.*?</function-decl>\n', '')
    expect(not broken(fewer, now), 'a new function')


if __name__ == '__main__':
    if '--renew' not in sys.argv:
        sys.exit(tap.run())
    _, NOW = compared()
    with open(BASELINE, 'w', encoding='utf-8') as target:
        target.write(NOW)
