# SPDX-License-Identifier: MIT
"""Programs that were built with an older header go on to work.

Usage: abi_test.py LIBRARY LIST INCLUDE_DIR COMPILER... [--write]; prints TAP.

LIST has a line for each exported function, each type's size, the place of each
member and each constant. What is new may be added, with --write, which writes
it anew; what is there may only change with the library's soname.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402

LIBRARY, LIST, INCLUDE, *COMPILER = [a for a in sys.argv[1:]
                                     if a != '--write']
NAMES = sorted(name for name in os.listdir(os.path.join(INCLUDE, 'coll'))
               if name.endswith('.h'))


def functions():
    if not shutil.which('nm'):
        raise tap.Skip('no nm here (binutils)')
    out = subprocess.run(['nm', '-D', '--defined-only', LIBRARY], text=True,
                         capture_output=True, check=True).stdout
    return sorted('function ' + line.split()[-1] for line in out.splitlines()
                  if line.split()[-1].startswith('coll_'))


def members(body):
    """Names of "const char *a, b[4];"."""
    for declaration in body.split(';'):
        for part in declaration.split(','):
            name = re.search(r'(\w+)\s*(\[[^]]*\]\s*)*$', part.strip())
            if name:
                yield name.group(1)


def questions(text):
    """Expressions whose value is a part of the interface."""
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S)
    for body, name in re.findall(r'typedef struct \w+ \{(.*?)\} (\w+);', text,
                                 re.S):
        yield f'sizeof({name})'
        for member in members(body):
            yield f'offsetof({name}, {member})'
    for body in re.findall(r'typedef enum \w+ \{(.*?)\}', text, re.S):
        for constant in re.findall(r'COLL_\w+', body):
            yield constant


def layout():
    asked = []
    for name in NAMES:
        with open(os.path.join(INCLUDE, 'coll', name),
                  encoding='utf-8') as file:
            asked += questions(file.read())
    source = '#include <stdio.h>\n' + ''.join(
        f'#include "coll/{name}"\n' for name in NAMES) + 'int main(void)\n{\n'
    source += ''.join(f'printf("{q} %d\\n", (int)({q}));\n' for q in asked)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'ask')
        with open(path + '.c', 'w', encoding='utf-8') as file:
            file.write(source + '}\n')
        subprocess.run([*COMPILER, '-I', INCLUDE, path + '.c', '-o', path],
                       check=True)
        return subprocess.run([path], text=True, capture_output=True,
                              check=True).stdout.splitlines()


def kept():
    with open(LIST, encoding='utf-8') as file:
        return file.read().splitlines()


def lost(now):
    """What the list has of these kinds, and the library has not."""
    words = {line.split()[0] == 'function' for line in now}
    return [line for line in kept()
            if (line.split()[0] == 'function') in words
            and line not in set(now)]


@case
def test_no_function_is_lost():
    expect(not lost(functions()), lost(functions()))


@case
def test_no_type_and_no_constant_changes():
    expect(not lost(layout()), lost(layout()))


@case
def test_what_is_compared_is_there():
    expect(len(functions()) > 60 and len(layout()) > 100, 'too little')


if __name__ == '__main__':
    if '--write' in sys.argv:
        with open(LIST, 'w', encoding='utf-8') as target:
            target.write('\n'.join(functions() + layout()) + '\n')
    else:
        sys.exit(tap.run())
