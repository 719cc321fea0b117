#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/compare_torch.py: usage compare_torch_test.py BUILD_FOLDER. Skips
without PyTorch."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks', 'compare_torch.py')
# Each kind of layer that nets of trainer/nets have.
NET = '''net small
input 3x12x16
left: conv 16 3x3 pad 1 nobias
batchnorm
a: relu
b: conv 16 3x3 pad 1 groups 2 from left
add from a b
maxpool 3x3 stride 2 ceil
c: lrn 5
d: avgpool 1x1
concat from c d
avgpool global
dropout 0.5
dense 10
softmax_loss
'''


def script(*words):
    return subprocess.run([SCRIPT, '--build', BUILD, *words], text=True,
                          capture_output=True, check=False, timeout=120)


@tap.case
def test_a_net_runs_in_both():
    with tempfile.TemporaryDirectory() as folder:
        net, file = os.path.join(folder, 'net'), os.path.join(folder, 'json')
        with open(net, 'w', encoding='utf-8') as to:
            to.write(NET)
        done = script('--nets', net + ':4', '--rounds', '2', '--seconds',
                      '0.1', '--json', file)
        tap.expect(done.returncode == 0, done.stderr)
        with open(file, encoding='utf-8') as found:
            row, = json.load(found)['rows']
        tap.expect(row['coll'] > 0 and row['torch'] > 0, row)
        tap.expect(len(row['ratios']) == 2 and row['batch'] == 4, row)
        tap.expect(10 < row['coll_mib'] < row['torch_mib'], row)
        tap.expect(done.stdout.count('|') > 20, done.stdout)


@tap.case
def test_bad_words_are_told():
    for words, part in ((('--nets', 'lenett:4'), 'found "lenett"'),
                        (('--nets', 'lenet'), 'valid is like lenet:64'),
                        (('--nets', 'lenet:4', '--threads', '0'), 'above 0')):
        done = script(*words)
        tap.expect(done.returncode != 0 and part in done.stderr, words,
                   done.stderr)


if script('--nets', 'none:1').returncode == 77:
    print('1..0 # SKIP no PyTorch here (Debian: python3-torch)')
    sys.exit()
sys.exit(tap.run())
