# SPDX-License-Identifier: MIT
"""The man pages of functions.

Usage: pages_test.py LIBRARY FOLDER PAGES.PY HEADER...; prints TAP.
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

LIBRARY, FOLDER, PAGES, *HEADERS = sys.argv[1:]
MAIN = next(h for h in HEADERS if os.path.basename(h) == 'coll.h')


def exported():
    if not shutil.which('nm'):
        raise tap.Skip('no nm here (binutils)')
    out = subprocess.run(['nm', '-D', '--defined-only', LIBRARY], text=True,
                         capture_output=True, check=True).stdout
    names = {line.split()[-1].split('@')[0] for line in out.splitlines()}
    return {name for name in names if name.startswith('coll_')}


def source(name):
    """A function's page, through the .so of those that share one."""
    path = os.path.join(FOLDER, name + '.3')
    with open(path, encoding='utf-8') as file:
        text = file.read()
    other = re.match(r'\.so man3/(\w+)\.3\n$', text)
    return source(other.group(1)) if other else text


def section(text, title):
    match = re.search(rf'^\.SH {title}\n(.*?)(?=^\.SH|\Z)', text, re.M | re.S)
    return match.group(1).strip() if match else ''


@case
def test_every_exported_function_has_a_whole_page():
    names = exported()
    expect(len(names) > 60, names)
    for name in sorted(names):
        expect(os.path.exists(os.path.join(FOLDER, name + '.3')), name,
               'has no page: does a public header declare it?')
        text = source(name)
        for title in 'NAME', 'SYNOPSIS', 'DESCRIPTION', 'RETURN VALUE':
            expect(section(text, title), name, 'lacks', title)
        head = section(text, 'NAME')
        expect(re.fullmatch(r'(\w+, )*\w+ \\- [^\n]{3,200}', head), head)
        expect(name in re.split(r', | ', head), name, 'is not in', head)
        expect(re.search(rf'\b{name}\(', section(text, 'SYNOPSIS')), name)
        if re.search(rf'^coll_status {name}\(', text, re.M):
            expect(section(text, 'ERRORS'), name, 'lacks ERRORS')


@case
def test_every_page_is_of_an_exported_function():
    pages = {name.removesuffix('.3') for name in os.listdir(FOLDER)}
    expect(pages - {'libcoll'} == exported(), pages ^ exported())


@case
def test_pages_are_without_a_warning():
    if not shutil.which('groff'):
        raise tap.Skip('no groff here (groff-base)')
    # In the folder above, where .so finds the other page.
    names = [os.path.join(os.path.basename(FOLDER), name)
             for name in sorted(os.listdir(FOLDER))]
    done = subprocess.run(['groff', '-man', '-ww', '-z', *names], text=True,
                          cwd=os.path.dirname(FOLDER), capture_output=True,
                          check=False)
    expect(done.returncode == 0 and not done.stderr, done.stderr)


def pages_of(header):
    """Status, stderr and the pages of a header with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'x.h')
        to = os.path.join(folder, 'man3')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(header)
        done = subprocess.run([sys.executable, PAGES, to, '1', MAIN,
                               path], text=True, capture_output=True,
                              check=False)
        found = {}
        for name in os.listdir(to) if os.path.isdir(to) else []:
            with open(os.path.join(to, name), encoding='utf-8') as file:
                found[name] = file.read()
        return done.returncode, done.stderr, found


@case
def test_a_function_without_a_comment_is_refused():
    status, err, _ = pages_of('/* What it is. */\n\nint coll_new(int x);\n')
    expect(status and 'coll/x.h: coll_new has no comment' in err, status, err)


@case
def test_functions_below_one_comment_share_a_page():
    status, err, found = pages_of(
        '/* What it is. */\n\n/* Two of a kind. They fail with MEMORY.\n *\n'
        ' *   x   a -number-\n *       .of things\n *\n * y   one more\n'
        ' *     of them\n */\n#define COLL_NEW 1\n'
        'typedef struct coll_pair {\n    int a; /* one */\n\n    int b;\n'
        '} coll_pair;\nint coll_new(int x);\n'
        'coll_status coll_old(const char *x,\n                     int y);\n')
    expect(status == 0, err)
    expect(found['coll_old.3'] == '.so man3/coll_new.3\n', found)
    text = found['coll_new.3']
    expect('coll_new, coll_old \\- two of a kind\n' in text, text)
    expect('} coll_pair;\n' in text and '.B x\na \\-number\\-\n\\&.of things'
           in text, text)
    expect('.TP\n.B y\none more\nof them\n' in text, text)
    expect('.B COLL_ERR_MEMORY\n' not in text, 'types.h was not read')


if __name__ == '__main__':
    sys.exit(tap.run())
