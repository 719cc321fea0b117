#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/compare_torch.py and compare_accuracy.py: usage compare_torch_test.py
BUILD_FOLDER. Skips without PyTorch."""
import gzip
import json
import os
import struct
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


def write_images(folder, part, count, lies=0):
    """Ten kinds, told by where a bar is; the first labels are lies."""
    kinds = [i % 10 for i in range(count)]
    with open(os.path.join(folder, part + '-images-idx3-ubyte'), 'wb') as to:
        to.write(struct.pack('>4i', 0x803, count, 28, 28))
        for kind in kinds:
            to.write(bytes(200 * (x // 2 == kind) for x in range(28)) * 28)
    with gzip.open(os.path.join(folder, part + '-labels-idx1-ubyte.gz'),
                   'wb') as to:
        to.write(struct.pack('>2i', 0x801, count)
                 + bytes((kind + (i < lies)) % 10
                         for i, kind in enumerate(kinds)))


@tap.case
def test_how_soon_both_learn():
    with tempfile.TemporaryDirectory() as folder:
        write_images(folder, 'train', 640)
        write_images(folder, 't10k', 200, 20)
        for goal, status in ('0.15', 0), ('0.9999', 1):
            done = subprocess.run(
                [os.path.join(FOLDER, 'compare_accuracy.py'), folder, '--build',
                 BUILD, '--seeds', '1', '--goal', goal, '--steps', '400',
                 '--json', os.path.join(folder, 'json')], text=True, capture_output=True,
                check=False, timeout=120)
            tap.expect(done.returncode == status, done.stdout, done.stderr)
            with open(os.path.join(folder, 'json'), encoding='utf-8') as found:
                row, = json.load(found)
            tap.expect(('times as long' in done.stdout) == (status == 0), done)
            tap.expect((row['torch'][0] is None) == (status == 1), row)
    soon, last = row['coll_train']
    tap.expect(0.15 < last and (soon is None) == (last < 0.9999), row)


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
