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
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks')
SCRIPT = os.path.join(FOLDER, 'compare_torch.py')
sys.path.insert(0, FOLDER)
import compare_torch  # noqa: E402

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


def compared(rounds, *words):
    with tempfile.TemporaryDirectory() as folder:
        net, file = os.path.join(folder, 'net'), os.path.join(folder, 'json')
        with open(net, 'w', encoding='utf-8') as to:
            to.write(NET)
        done = script('--nets', net + ':4', '--rounds', str(rounds),
                      '--seconds', '0.1', '--json', file, *words)
        tap.expect(done.returncode == 0, done.stderr)
        with open(file, encoding='utf-8') as found:
            row, = json.load(found)['rows']
        tap.expect(row['coll'] > 0 and row['torch'] > 0, row)
        tap.expect(len(row['ratios']) == rounds and row['batch'] == 4, row)
        tap.expect(done.stdout.count('|') > 20, done.stdout)
        return row


@tap.case
def test_a_net_runs_in_both():
    row = compared(2)
    tap.expect(10 < row['coll_mib'] < row['torch_mib'], row)


@tap.case
def test_several_ranks_of_both():
    row = compared(1, '--ranks', '2')
    tap.expect(row['ranks'] == 2 and 0 <= row['coll_share'] <= 1, row)
    tap.expect(0 <= row['torch_share'] < 1, row)


@tap.case
def test_options_of_hosts_say_how_many_ranks():
    for lab, nranks in (('', 4), ('--hosts 2', 2),
                        ('--hosts 2 --ranks-per-host 3 --rate 1Gbit', 6),
                        ('--hosts 4 --place round_robin', 4),
                        ('--hosts 2 --place 0,1,1', 3)):
        found = compare_torch.hosts_of(None, lab)
        tap.expect(found == nranks, lab, found)


@tap.case
def test_without_root_hosts_are_skipped():
    if os.geteuid() == 0:
        return
    done = script('--nets', 'lenet:4', '--lab', '--hosts 2')
    tap.expect(done.returncode == 77 and 'netlab' in done.stderr,
               done.returncode, done.stderr)


@tap.case
def test_bad_words_are_told():
    for words, part in ((('--nets', 'lenett:4'), 'found "lenett"'),
                        (('--nets', 'lenet'), 'valid is like lenet:64'),
                        (('--nets', 'lenet:4', '--threads', '0'), 'above 0'),
                        (('--lab', '--hosts 1'), 'at least 2 ranks')):
        done = script(*words)
        tap.expect(done.returncode != 0 and part in done.stderr, words,
                   done.stderr)


if script('--nets', 'none:1').returncode == 77:
    print('1..0 # SKIP no PyTorch here (Debian: python3-torch)')
    sys.exit()
sys.exit(tap.run())
