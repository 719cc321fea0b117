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
    # Of jobs that made more steps than others these count, but have no pair.
    tap.expect(0 < found['in_step'] <= 1.05 * found['jobs'], found)
    tap.expect(abs(found['exchange']) < 1 and found['steps'] > 0, found)


STEPS = """
import json, os, sys, time
last = time.monotonic()
with open(sys.argv[1], 'w', buffering=1) as log:
    while True:
        time.sleep(0.01)
        now = time.monotonic()
        print(json.dumps({'step_ms': 1e3 * (now - last), 'at': now}), file=log)
        last = now
"""


@tap.case
def test_a_job_makes_steps_in_its_turns_only():
    with tempfile.TemporaryDirectory() as folder:
        logs = [os.path.join(folder, 'log' + rank) for rank in '01']
        job = in_turn.Job([os.path.join(BUILD, 'collrun'), '-n', '2', 'sh',
                           '-c', 'exec "$0" -c "$1" "$2$COLL_RANK"',
                           sys.executable, STEPS, logs[0][:-1]], logs, {})
        found = []
        try:
            job.begin(3)
            for only in (None, 1, 0, None):
                time.sleep(2)
                begin = time.monotonic()
                found.append((begin, job.run(0.3, only), time.monotonic()))
        finally:
            job.end()
        tap.expect(not list(in_turn.processes_of(job.process.pid)))
    tap.expect([len(logs) for _, logs, _ in found] == [2, 1, 1, 2], found)
    for begin, logs, end in found:
        for rows in logs:
            over = [row for row in rows if row.get('stopped')]
            tap.expect(len(over) == 1 and 0 < over[0]['step_ms'] < 1000, over)
            # Those before were made while it was told to stop.
            after = rows[rows.index(over[0]):]
            tap.expect(len(after) > 1, rows)
            tap.expect(all(begin < row['at'] < end for row in after), begin,
                       end, after)


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


def stopped(process):
    try:
        with open(f'/proc/{process}/stat', encoding='utf-8') as file:
            return file.read().rpartition(') ')[2].startswith('T')
    except OSError:
        return False


@tap.case
def test_nothing_that_is_stopped_is_left():
    with tempfile.TemporaryDirectory() as folder:
        net = os.path.join(folder, 'net')
        with open(net, 'w', encoding='utf-8') as to:
            to.write(NET)
        with subprocess.Popen([SCRIPT, '--build', BUILD, '--nets', net + ':4'],
                              stdout=subprocess.DEVNULL) as process:
            while not any(map(stopped, left(net))):
                tap.expect(process.poll() is None, 'it ended')
                time.sleep(0.05)
            process.kill()
        for _ in range(100):
            if not left(net):
                break
            time.sleep(0.05)
        tap.expect(not left(net), left(net))


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
def test_exchange_is_of_steps_in_which_rank_0_did_not_wait():
    rows = [{'step_ms': 80.0, 'parts_ms': {'inside': ms, 'outside': 0.0},
             'slowest_rank': rank, 'slowest_ms': 12.0}
            for rank, ms in ((0, 2.0), (1, 5.0), (0, 2.0), (1, 17.0))]
    tap.expect(abs(scaling.exchange_of(rows) - 2 / 80) < 1e-9)
    tap.expect(abs(scaling.exchange_of(rows[3:]) - 5 / 80) < 1e-9)
    few = [rows[0], *[rows[3]] * 9]
    tap.expect(scaling.exchange_of(few) > 4 / 80)
    stopped = {**rows[0], 'stopped': 5.0, 'step_ms': 1e6}
    tap.expect(abs(scaling.exchange_of([stopped, *rows]) - 2 / 80) < 1e-9)


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
