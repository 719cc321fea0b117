#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/papers: usage papers_test.py BUILD_FOLDER [WORD...]. Speaks TAP.

With TESTS_THOROUGH each script runs in its smallest form, else those alone that
take a second."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'benchmarks/papers'
sys.path.insert(0, str(FOLDER))
import nets  # noqa: E402
import paper  # noqa: E402

SCRIPTS = sorted(path for path in FOLDER.glob('*.py')
                 if os.access(path, os.X_OK))
QUICK = [path for path in SCRIPTS if path.stem in ('weak_scaling', 'packing')]
PNG = b'\x89PNG\r\n\x1a\n'


def run(script, *words):
    return subprocess.run([script, '--build', BUILD, *words], text=True,
                          capture_output=True, check=False, timeout=200)


def kinds(text):
    """The first cell of each row below the heads of tables."""
    rows = [line.split('|')[1].strip() for line in text.splitlines()
            if line.startswith('|')]
    return [cell for cell in rows if cell not in ('how', '---')]


@tap.case
def test_tensors_of_nets_are_those_that_papers_count():
    for net, count, elements in (
            ('alexnet', 16, 60965224), ('alexnet_ungrouped', 16, 62378344),
            ('vgg16', 32, 138357544), ('vgg19', 38, 143667240),
            ('resnet50', 161, 25557032), ('lenet', 8, 431080),
            ('googlenet', 116, 6998552)):
        found = nets.tensors(net)
        tap.expect(len(found) == count, net, len(found))
        tap.expect(sum(found) == elements, net, sum(found))
    tap.expect(nets.images('resnet20') == '3x32x32', nets.images('resnet20'))


@tap.slow_case
def test_packing_resnet50_takes_a_fifth_of_the_messages():
    env = dict(os.environ, COLL_TRANSPORT='ucx', COLL_ADAPT='off')
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'tensors')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(map(str, nets.tensors('resnet50'))))
        done = subprocess.run(
            [f'{BUILD}/collrun', '-n', '4', f'{BUILD}/coll_tensors', path,
             '0'], text=True, capture_output=True, check=False, timeout=100,
            env=env)
    tap.expect(done.returncode == 0, done.stderr)
    row = json.loads(done.stdout)
    print('#', row)
    tap.expect(row['tensors'] == 161, row)
    tap.expect(row['layers_messages'] >= 5 * row['packed_messages'] > 0, row)


@tap.case
def test_each_script_says_what_it_is_for():
    tap.expect(len(SCRIPTS) >= 7, SCRIPTS)
    readme = (FOLDER / 'README.md').read_text(encoding='utf-8')
    for script in tap.cases(SCRIPTS, SCRIPTS[:2]):
        done = run(script, '--help')
        tap.expect(done.returncode == 0, script, done.stderr)
        for word in '--budget', '--out', '--build':
            tap.expect(word in done.stdout, script, word)
    for script in SCRIPTS:
        tap.expect(f'`{script.name}`' in readme, script)


@tap.case
def test_the_smallest_form_writes_a_table_and_a_picture():
    for script in tap.cases(SCRIPTS, QUICK):
        with tempfile.TemporaryDirectory() as folder:
            done = run(script, '--budget', '0', '--out', folder)
            if done.returncode == paper.SKIPPED:
                continue  # all of it is between hosts, and there are none
            tap.expect(done.returncode == 0, script, done.returncode,
                       done.stderr)
            name = os.path.join(folder, script.stem)
            with open(name + '.png', 'rb') as file:
                tap.expect(file.read(8) == PNG, script)
            with open(name + '.md', encoding='utf-8') as file:
                text = file.read()
            tap.expect(text == done.stdout, script)
            found = kinds(text)
            tap.expect(found and set(found) <= {
                'measured', 'simulated', 'computed'}, script, found)
            tap.expect('What was run:\n\n    ' in text, script)
            tap.expect('points were left out' in text, script)


LIMITS = FOLDER / 'communication_share.py'


@tap.slow_case
def test_elastic_averaging_communicates_as_little_as_it_should():
    """Limits that a busy machine may break are far from what it takes alone."""
    for _ in range(tap.TRIES // 2):
        with tempfile.TemporaryDirectory() as folder:
            done = run(LIMITS, '--limits', '--budget', '60', '--out', folder)
        if 'measured between hosts: ' in done.stdout:
            raise tap.Skip('there are no hosts here')
        tap.expect(done.returncode == ('NOT ' in done.stdout),
                   done.returncode, done.stdout, done.stderr)
        if ('sync-easgd3 was more than' in done.stdout
                and 'NOT where it should be' not in done.stdout):
            return
    tap.give_up('it waits too much, is too slow, or the original is not '
                'where it should be')


class Quiet(paper.Run):
    """Without a command line."""

    def __init__(self):
        sys.argv[1:] = ['--build', BUILD, '--budget', '0']
        super().__init__('A title\n\nWhat it is.')


@tap.case
def test_a_row_says_how_it_came_about():
    one = Quiet()
    one.table(('nodes',), [(paper.MEASURED, 4)])
    tap.expect(one.lines[-1] == '| measured | 4 |', one.lines)
    try:
        one.table(('nodes',), [(4, 5)])
    except ValueError:
        return
    raise tap.Wrong('a row without its kind was taken')


@tap.case
def test_a_budget_that_is_spent_leaves_the_first_point():
    one = Quiet()
    tap.expect(list(one.points((7, 8, 9))) == [7], 'not the first alone')
    tap.expect((one.done, one.left_out) == (1, 2), one.done, one.left_out)
    one.options.budget = 1000
    tap.expect(list(one.points((7, 8, 9))) == [7, 8, 9], 'not all')


@tap.case
def test_bad_words_are_told():
    for words, part in ((('--out', '/nowhere'), 'valid is a folder'),
                        (('--build', '/'), 'valid is a folder that Meson'),
                        (('--budget', 'x'), '--budget')):
        done = subprocess.run([SCRIPTS[0], *words], text=True,
                              capture_output=True, check=False)
        tap.expect(done.returncode == 2 and part in done.stderr, words,
                   done.stderr)


def draw(text, folder):
    return subprocess.run([f'{BUILD}/draw_chart', f'{folder}/a.png'],
                          input=text, text=True, capture_output=True,
                          check=False)


@tap.case
def test_a_picture_needs_charts():
    with tempfile.TemporaryDirectory() as folder:
        for text in ('', '[]', '{}', '[{}]',
                     '[{"x": "bytes", "y": "seconds", "series": '
                     '[{"points": [[1]]}]}]',
                     '[{"x": "bytes", "y": "seconds", "series": '
                     '[{"of": 2, "points": [[1, 1]]}]}]'):
            done = draw(text, folder)
            tap.expect(done.returncode == 1 and 'draw_chart: ' in done.stderr,
                       text, done.stderr)
            tap.expect(not os.listdir(folder), 'a part of a file')
        done = draw('[{"x": "bytes", "y": "seconds", "series": []}]', folder)
        tap.expect(done.returncode == 0, done.stderr)


@tap.case
def test_sums_of_tensors_are_timed():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'tensors')
        for text, part in (('', 'no number'), ('x', 'no number'),
                           ('8\nx\n8\n', 'is no number')):
            pathlib.Path(path).write_text(text, encoding='utf-8')
            done = subprocess.run([f'{BUILD}/coll_tensors', path], text=True,
                                  capture_output=True, check=False)
            tap.expect(done.returncode == 1 and part in done.stderr, text,
                       done.stderr)


# By its name alone, as it wants the processors for itself.
ALONE = 'elastic averaging communicates as little as it should'
sys.exit(tap.run([c for c in tap.chosen(tap.CASES)
                  if c[0] != ALONE or len(sys.argv) > 2]))
