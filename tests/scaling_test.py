#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/scaling.py: usage scaling_test.py BUILD_FOLDER [WORD...]."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'benchmarks'))
import scaling  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks', 'scaling.py')
NET = '''net small
input 1x16x16
conv 16 3x3 pad 1
relu
dense 10
softmax_loss
'''


def script(*words):
    return subprocess.run([SCRIPT, '--build', BUILD, *words], text=True,
                          capture_output=True, check=False, timeout=120)


def tried(*words):
    """The only round of the net above, and the row that was printed."""
    with tempfile.TemporaryDirectory() as folder:
        net, file = os.path.join(folder, 'net'), os.path.join(folder, 'json')
        with open(net, 'w', encoding='utf-8') as to:
            to.write(NET)
        done = script('--nets', net + ':4', '--budget', '0', '--json', file,
                      *words)
        if done.returncode == 77:
            raise tap.Skip(done.stderr.strip())
        tap.expect(done.returncode == 0, done.stderr)
        with open(file, encoding='utf-8') as found:
            row, = json.load(found)['rows']
        tap.expect(row['batch'] == 4 and len(row['rounds']) == 1, row)
        head, *_, last = [line for line in done.stdout.splitlines()
                          if line.startswith('|')]
        tap.expect(head.count('|') == last.count('|') and '/net | 4 | 1 |'
                   in last, done.stdout)
        return row['rounds'][0]


@tap.case
def test_ranks_are_beside_one_and_beside_jobs_that_share_nothing():
    found = tried()
    tap.expect(min(found['one'], found['job'], found['jobs']) > 0, found)
    for key, of, whole in (('efficiency', 'job', 2 * found['one']),
                           ('by_itself', 'jobs', 2 * found['one']),
                           ('by_step', 'in_step', 2 * found['one']),
                           ('of_that', 'job', found['in_step'])):
        tap.expect(abs(found[key] * whole - found[of]) < 1e-6 * found[of],
                   key, found)
    tap.expect(0 < found['in_step'] <= 1.001 * found['jobs'], found)
    tap.expect(abs(found['exchange']) < 1, found)
    # Also of processors that others use; of two ranks that took turns half.
    tap.expect(0.2 < found['arithmetic'] < 5, found)


@tap.case
def test_arithmetic_has_as_many_steps_as_asked_and_about_as_long():
    program = os.path.join(BUILD, 'coll_arithmetic')
    out = subprocess.run([os.path.join(BUILD, 'collrun'), '-n', '2', program,
                          '9', '20'], text=True, capture_output=True,
                         check=True, timeout=60).stdout
    found = json.loads(out)
    tap.expect(found['rounds'] > 0 and len(found['steps_ms']) == 9
               and 4 < sorted(found['steps_ms'])[4] < 100, found)
    for wrong in (['9'], ['0', '20'], ['9', '0'], ['9', 'nan'], ['9', 'inf']):
        done = subprocess.run([program, *wrong], text=True, check=False,
                              capture_output=True, timeout=60)
        tap.expect(done.returncode == 1 and 'valid' in done.stderr, wrong, done)


@tap.case
def test_exchange_is_what_is_left_without_waiting():
    """Of 30 ms that rank 0 communicates it waits as long as rank 1 is late."""
    row = {'parts_ms': {'inside': 10.0, 'outside': 20.0, 'compute': 50.0}}
    for slowest, ms in (({}, 30), ({'slowest_rank': 0, 'slowest_ms': 12.0}, 30),
                        ({'slowest_rank': 1, 'slowest_ms': 12.0}, 18)):
        tap.expect(scaling.exchange_ms({**row, **slowest}) == ms, slowest)


@tap.case
def test_what_a_network_exposes_is_what_steps_take_longer():
    found = tried('--lab', '--hosts 2 --rate 1Gbit')
    tap.expect(min(found[key] for key in ('backward', 'computing', 'sum')) > 0,
               found)
    tap.expect(abs(found['step'] - found['computing'] - found['exposed'])
               < 1e-9 * found['step'], found)
    most = max(0, found['sum'] - found['backward']) + found['computing'] / 10
    tap.expect(abs(found['most'] - most) < 1e-9 * most, found)
    # which may be below 0: the slowest rank's lateness is a mean of others'
    tap.expect(abs(found['exchange']) < found['step'], found)


@tap.case
def test_bad_words_are_told():
    for words, part in ((('--nets', 'lenett:4'), 'found "lenett"'),
                        (('--nets', 'lenet'), 'valid is like resnet18:16'),
                        (('--ranks', '1'), 'valid is 2 or more'),
                        (('--budget', '-1'), 'not below'),
                        (('--lab', '--hosts 1'), 'at least 2 ranks')):
        done = script(*words)
        tap.expect(done.returncode != 0 and part in done.stderr, words,
                   done.stderr)


sys.exit(tap.run(tap.chosen(tap.CASES)))
