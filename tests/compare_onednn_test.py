#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/compare_onednn.py: usage compare_onednn_test.py BUILD_FOLDER. Skips
what needs oneDNN where it is missing."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks')
sys.path.insert(0, FOLDER)
import compare_onednn  # noqa: E402

# What oneDNN must be told of: no square, groups, strides, gaps, and a first
# layer without a gradient of its input.
NET = '''net small
input 3x18x22
a: conv 32 5x5 pad 2 stride 2
relu
b: conv 32 3x2 pad 1 groups 2
relu
c: conv 16 3x3 dilation 2
dense 10
softmax_loss
'''


def script(*words, **env):
    return subprocess.run(
        [os.path.join(FOLDER, 'compare_onednn.py'), '--build', BUILD, *words],
        text=True, capture_output=True, check=False, timeout=120,
        env={**os.environ, **env})


@tap.case
def test_a_net_runs_in_both():
    if not compare_onednn.installed():
        raise tap.Skip('no oneDNN here (Debian 12: libdnnl-dev)')
    with tempfile.TemporaryDirectory() as folder:
        net, path = os.path.join(folder, 'net'), os.path.join(folder, 'json')
        with open(net, 'w', encoding='utf-8') as file:
            file.write(NET)
        done = script('--nets', net + ':2', '--rounds', '2', '--seconds', '0',
                      '--json', path)
        tap.expect(done.returncode == 0, done.stderr)
        with open(path, encoding='utf-8') as file:
            one, = json.load(file)['nets']
    passes = one['passes']
    tap.expect(list(passes) == ['fwd', 'bwd_data', 'bwd_weights'], passes)
    for which, ways in passes.items():
        tap.expect(list(ways) == ['direct', 'auto'], which, ways)
        for row in ways.values():
            tap.expect(sorted(row['layers']) == (
                ['b', 'c'] if which == 'bwd_data' else ['a', 'b', 'c']), row)
            tap.expect(len(row['ratios']) == 2 and row['ratio'] > 0, row)
            rates = row['coll_gflops'], row['onednn_gflops']
            tap.expect(0 < min(rates) and max(rates) < 1e5, row)
    tap.expect(done.stdout.count('\n| ') == 3, done.stdout)


@tap.case
def test_sums_count_each_layer_as_often_as_the_net_has_it():
    shapes = {('a', 'fwd'): {'times': 3, 'gflop': 2.0},
              ('b', 'fwd'): {'times': 1, 'gflop': 4.0}}
    rounds = [[{('a', 'fwd'): 1, ('b', 'fwd'): 2},
               {('a', 'fwd'): 2, ('b', 'fwd'): 1}]] * 2
    row = compare_onednn.compare(shapes, list(shapes), rounds)
    tap.expect(row['coll_gflops'] == 10e3 / 5, row)
    tap.expect(row['onednn_gflops'] == 10e3 / 7, row)
    tap.expect(row['ratio'] == 7 / 5, row)
    tap.expect(row['layers'] == {'a': 2, 'b': 0.5}, row)
    tap.expect(compare_onednn.cells(row)
               == ' 2000 | 1429 | 1.40 (1.40 to 1.40) | 0.50 (b) |', row)


@tap.case
def test_without_onednn_it_is_skipped():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, 'oneapi', 'dnnl'))
        open(os.path.join(folder, 'oneapi', 'dnnl', 'dnnl.h'), 'w').close()
        done = script('--nets', 'lenet:1', CPATH=folder)
    tap.expect(done.returncode == 77 and not done.stdout, done.returncode,
               done.stdout)
    tap.expect('libdnnl-dev' in done.stderr and done.stderr.count('\n') == 1,
               done.stderr)


@tap.case
def test_bad_words_are_told():
    for words, part in ((('--nets', 'lenet'), 'valid is like vgg16:4'),
                        (('--threads', '0'), 'above 0'),
                        (('--seconds', '-1'), 'above 0')):
        done = script(*words)
        tap.expect(done.returncode == 2 and part in done.stderr, words,
                   done.stderr)


sys.exit(tap.run(tap.chosen(tap.CASES)))
