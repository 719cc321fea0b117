#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""benchmarks/scaling.py: usage scaling_test.py BUILD_FOLDER [WORD...]."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'benchmarks'))
import in_turn  # noqa: E402
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
    tap.expect(0 < found['in_step'] <= 1.05 * found['jobs'], found)
    tap.expect(abs(found['exchange']) < 1 and found['steps'] > 0, found)
    # Also of processors that others use; of two ranks that took turns half.
    tap.expect(0.2 < found['arithmetic'] < 5, found)


@tap.case
def test_arithmetic_takes_about_as_long_as_asked():
    program = os.path.join(BUILD, 'coll_arithmetic')
    with subprocess.Popen([os.path.join(BUILD, 'collrun'), '-n', '2', program,
                           '20'], text=True, stdout=subprocess.PIPE) as job:
        rows = [json.loads(job.stdout.readline()) for _ in range(9)]
        job.terminate()
    ms = sorted(row['step_ms'] for row in rows)
    tap.expect(4 < ms[4] < 100 and rows[0]['rounds'] > 0, rows)
    for wrong in ([], ['0'], ['nan'], ['inf'], ['20', '20']):
        done = subprocess.run([program, *wrong], text=True, check=False,
                              capture_output=True, timeout=60)
        tap.expect(done.returncode == 1 and 'valid' in done.stderr, wrong, done)


STEPS = """
import json, os, sys, time
rank = os.environ['COLL_RANK']
with open(sys.argv[1] + rank, 'w', buffering=1) as log:
    for step in range(100000):
        time.sleep(0.002)
        print(json.dumps({'step_ms': 1e3 * time.monotonic()}), file=log)
"""


@tap.case
def test_a_job_makes_steps_in_its_turns_only():
    with tempfile.TemporaryDirectory() as folder:
        logs = [os.path.join(folder, 'log' + rank) for rank in '01']
        job = in_turn.Job([os.path.join(BUILD, 'collrun'), '-n', '2',
                           sys.executable, '-c', STEPS, logs[0][:-1]], logs,
                          {})
        try:
            job.begin(3)
            time.sleep(0.1)
            late = 1e3 * time.monotonic()
            between = [rows for rows in job.rows() for row in rows
                       if row['step_ms'] > late - 50]
            begin = 1e3 * time.monotonic()
            a, b = job.run(0.3)
            end = 1e3 * time.monotonic()
        finally:
            job.end()
        tap.expect(not between, between)
        tap.expect(10 < len(a) == len(b) < 160, len(a), len(b))
        tap.expect(all(begin < row['step_ms'] < end for row in a + b), begin,
                   end, a, b)
        tap.expect(not list(in_turn.processes_of(job.process.pid)))


def left(word):
    """Processes with this in their command lines."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/cmdline', 'rb') as file:
                if word.encode() in file.read():
                    found.append(name)
        except OSError:
            pass
    return found


@tap.case
def test_nothing_that_is_stopped_is_left():
    with tempfile.TemporaryDirectory() as folder:
        net = os.path.join(folder, 'net')
        with open(net, 'w', encoding='utf-8') as to:
            to.write(NET)
        with subprocess.Popen([SCRIPT, '--build', BUILD, '--nets', net + ':4'],
                              stdout=subprocess.DEVNULL) as process:
            # itself, and jobs
            while len(left(net)) < 4 and process.poll() is None:
                time.sleep(0.05)
            process.terminate()
        tap.expect(process.returncode == 143 and not left(net),
                   process.returncode, left(net))


@tap.case
def test_a_job_that_fails_says_what_it_said():
    with tempfile.TemporaryDirectory() as folder:
        job = in_turn.Job([os.path.join(BUILD, 'coll_train'), '--nett'],
                          [os.path.join(folder, 'log')], {})
        try:
            job.begin(3)
            tap.expect(False, 'it began')
        except scaling.Failed as failure:
            tap.expect('--net' in str(failure), failure)
        finally:
            job.end()


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
                        (('--slice', '1'), 'valid is 2 or more'),
                        (('--lab', '--hosts 1'), 'at least 2 ranks')):
        done = script(*words)
        tap.expect(done.returncode != 0 and part in done.stderr, words,
                   done.stderr)


sys.exit(tap.run(tap.chosen(tap.CASES)))
