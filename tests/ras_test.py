# SPDX-License-Identifier: MIT
"""coll_ras, from outside.

Usage: ras_test.py BUILD_DIR; prints TAP. The jobs are those of record_job.c,
without collrun, which would end them where one rank is killed.
"""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
RAS = os.path.join(BUILD, 'coll_ras')
JOB = os.path.join(BUILD, 'record_job')
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith('COLL_')},
       'COLL_STORE': 'off'}
SECONDS = 20  # after which a job is not what it should be


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def job(*args, ranks=3):
    """Yields the folder of the records and the processes by rank."""
    with tempfile.TemporaryDirectory() as folder:
        root = f'127.0.0.1:{free_port()}'
        processes = [
            subprocess.Popen([JOB, *map(str, args)], stderr=subprocess.DEVNULL,
                             env={**ENV, 'COLL_RECORDER': folder,
                                  'COLL_RANK': str(r), 'COLL_ROOT': root,
                                  'COLL_NRANKS': str(ranks)})
            for r in range(ranks)]
        try:
            yield folder, processes
        finally:
            for p in processes:
                p.kill()
                p.wait()


def ras(*args, **settings):
    """Returns (status, stdout, stderr)."""
    done = subprocess.run([RAS, *args], env={**ENV, **settings}, text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def look(folder, *args):
    """Returns (status, the communicators as JSON has them)."""
    status, out, err = ras(folder, '--json', *args)
    expect(not err, err)
    found = json.loads(out)
    expect(found['format'] == 'coll_ras 1', out)
    return status, found['communicators']


def until(folder, holds, *args):
    """Looks until a job's only communicator is as it should be."""
    end = time.monotonic() + SECONDS
    while True:
        status, found = look(folder, '--interval', '0.05', *args)
        if len(found) == 1 and holds(found[0]):
            return status, found[0]
        expect(time.monotonic() < end, found)


def hangs(c):
    """Rank 2 has ended operation 20, the last one, and does not come to 21."""
    numbers = [r.get('operation', {}).get('number') for r in c['ranks']]
    return (numbers == [21, 21, 20]
            and not c['ranks'][2]['operation']['pending'])


@case
def test_a_job_that_works_is_well():
    with job('orderly', 100000000) as (folder, processes):
        status, found = until(folder, lambda c: c['state'] == 'working')
        expect(status == 0 and found['nranks'] == found['on_record'] == 3
               and found['operations_per_s'] > 10, found)
        expect([r['pid'] for r in found['ranks']]
               == [p.pid for p in processes], found)
        _, out, err = ras(folder)
        expect(not err and re.match(
            r'Communicator [0-9a-f]{16} of 3 ranks, 3 on record: working, '
            r'\S+ operations a second', out), out, err)


@case
def test_who_has_not_come_is_named():
    with job('hang', 20) as (folder, _):
        status, found = until(folder, lambda c: hangs(c)
                              and c['state'] == 'waiting')
        expect(status == 0 and found['stragglers'] == [2], status, found)
        expect([(r['operation']['number'], r['operation']['pending'],
                 r['behind']) for r in found['ranks']]
               == [(21, True, 0), (21, True, 0), (20, False, 1)], found)
        time.sleep(.3)
        status, found = until(folder, lambda c: c['state'] == 'stalled',
                              '--stalled', '0.2')
        expect(status == 1 and 0.2 < found['pending_s'] < SECONDS, found)
        status, out, err = ras(folder, '--stalled', '0.1')
        expect(status == 1 and not err and re.search(
            r'\n +0 .* in 21, allreduce of 1 f64, sum, begun \S+ m?s ago\n', out)
            and re.search(r'\nRank 2 has not come to operation 21: it has been '
                          r'in none for \S+ m?s, and its process is sleeping'
                          r'\.\n', out), out, err)


@case
def test_a_process_that_is_there_proves_nothing():
    """As in NVIDIA/nccl issue 1730: all answered, and nothing moved."""
    with job('orderly', 100000000) as (folder, processes):
        until(folder, lambda c: c['state'] == 'working')
        processes[1].send_signal(signal.SIGSTOP)
        status, found = until(folder, lambda c: c['state'] == 'stalled',
                              '--stalled', '0.1')
        expect(status == 1, status)
        expect([r['process'] == 'stopped' for r in found['ranks']]
               == [False, True, False], found)
        processes[1].send_signal(signal.SIGCONT)
        status, _ = until(folder, lambda c: c['state'] == 'working')
        expect(status == 0, status)


@case
def test_a_rank_that_is_gone_is_named():
    with job('orderly', 100000000) as (folder, processes):
        until(folder, lambda c: c['state'] == 'working')
        for p in processes[:2]:  # so that they do not notice
            p.send_signal(signal.SIGSTOP)
        processes[2].kill()
        processes[2].wait()
        status, found = until(folder, lambda c: c['state'] == 'broken')
        expect(status == 1 and found['ranks'][2]['process'] == 'gone', found)
        _, out, _ = ras(folder)
        expect(f'Rank 2 is gone: process {processes[2].pid} ended without '
               'leaving in order.\n' in out, out)
        for p in processes[:2]:
            p.kill()
            p.wait()
        expect(look(folder) == (0, []), 'a job that is over does not run')


@case
def test_a_failure_is_told_with_its_reason():
    with job('linger', 5) as (folder, _):
        status, found = until(folder, lambda c: c['state'] == 'failed'
                              and all('failed' in r for r in c['ranks'][:2]))
        expect(status == 1 and 'rank 2' in found['ranks'][0]['failed'], found)
        _, out, _ = ras(folder)
        expect(re.search(r'\nRank 0 failed: .*rank 2', out), out)


@case
def test_a_receive_without_a_send_is_told():
    with job('messages', 2) as (folder, _):
        _, found = until(folder, lambda c: c['on_record'] == 3
                         and 'tag 9' in c['ranks'][0].get(
                             'oldest_message', {}).get('call', '')
                         and c['ranks'][2]['behind'] == 0)
        message = found['ranks'][0]['oldest_message']
        expect(message['call'] == 'receive of at most 1 f64 from rank 1 with '
               'tag 9' and message['pending']
               and found['ranks'][0]['messages_pending'] == 1, found)
        _, out, _ = ras(folder)
        expect(re.search('Rank 0 waits in a receive of at most 1 f64 from rank 1 '
                         r'with tag 9, .*, for which rank 1 has made no send\.',
                         out), out)


@case
def test_the_slowest_rank_is_named():
    with job('slow', 100000) as (folder, _):
        _, found = until(folder, lambda c: c['operation'] > 20)
        expect(max(found['ranks'], key=lambda r: r['late_s'])['rank'] == 2
               and found['ranks'][2]['late_s'] > 2e-3, found)
        _, out, _ = ras(folder, '--interval', '0')
        expect(re.search(r'\nRank 2 is the slowest: the others wait \S+ ms for '
                         r'it alone, \d+ % of the time between operations '
                         r'\(mean of \d+\)\.\n', out), out)


@case
def test_metrics_are_as_prometheus_reads_them():
    with job('hang', 20) as (folder, _):
        until(folder, hangs)
        status, out, err = ras(folder, '--prometheus', '--interval', '0')
        expect(status == 0 and not err, status, err)
    types, rows = {}, {}
    for line in out.splitlines():
        if line.startswith('# TYPE '):
            _, _, name, kind = line.split()
            expect(name not in types and kind in ('gauge', 'counter'), line)
            types[name] = kind
        elif not line.startswith('# HELP '):
            row = re.fullmatch(r'(\w+)\{((?:\w+="[^"\\]*",?)*)\} '
                               r'([0-9.e+-]+)', line)
            expect(row and row[1] == list(types)[-1], line)
            labels = dict(re.findall(r'(\w+)="([^"]*)"', row[2]))
            key = row[1], labels.get('rank', labels.get('state'))
            expect(key not in rows, line)
            rows[key] = float(row[3])
    expect(len(types) == 12, types)
    expect(rows['coll_rank_operations_total', '0'] == 21
           and rows['coll_rank_operations_total', '2'] == 20
           and rows['coll_rank_behind', '2'] == 1
           and rows['coll_rank_pending_seconds', '0'] > 0
           and rows['coll_rank_pending_seconds', '2'] == 0
           and rows['coll_comm_state', 'waiting'] == 1
           and rows['coll_comm_state', 'stalled'] == 0
           and rows['coll_comm_ranks', None] == 3, rows)


@case
def test_records_that_come_and_go_are_no_errors():
    with tempfile.TemporaryDirectory() as folder:
        env = {**ENV, 'COLL_RECORDER': folder}
        # As one is for a moment, before its maker has locked it.
        with open(os.path.join(folder, 'coll-0123456789abcdef-0-1.rec'), 'w'):
            pass
        for _ in range(tap.cases(60, 15)):
            root = f'127.0.0.1:{free_port()}'
            ranks = [subprocess.Popen([JOB, 'orderly', '300'], env={
                **env, 'COLL_RANK': str(r), 'COLL_NRANKS': '3',
                'COLL_ROOT': root}) for r in range(3)]
            while any(r.poll() is None for r in ranks):
                status, out, err = ras(folder, '--interval', '0.001')
                expect(status == 0 and not err, status, out, err)
            expect(all(r.wait() == 0 for r in ranks), 'the job failed')


@case
def test_a_file_that_cannot_be_read_hides_no_progress():
    with job('slow', 100000) as (folder, _):
        until(folder, lambda c: c['state'] == 'working')
        path = os.path.join(folder, f'coll-{7:016x}-0-1.rec')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('junk')
        status, out, err = ras(folder, '--json', '--stalled', '0')
        expect(status == 2 and err.count('\n') == 1 and path in err, err)
        expect(json.loads(out)['communicators'][0]['state'] == 'working', out)


@case
def test_the_folder_is_where_jobs_keep_records():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, 'libcoll'), 0o700)
        status, out, err = ras(XDG_RUNTIME_DIR=folder)
        expect((status, out, err) == (0, 'No job runs.\n', ''), status, out, err)
    with job('hang', 3) as (folder, _):
        _, found = until(folder, lambda c: c['stragglers'] == [2])
        status, out, err = ras(COLL_RECORDER=folder)
        expect(status == 0 and found['job'] in out, status, out, err)
        expect(look(folder, '--job', found['job'][:4])[1], 'found by its digits')
        other = '0' if found['job'][0] != '0' else '1'
        expect(look(folder, '--job', other) == (0, []), 'another one')


@case
def test_bad_input_is_told_in_one_line():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'text')
        with open(path, 'w', encoding='utf-8') as file:
            file.write('no record')
        for args, words in (
                (('--json', '--prometheus'), 'one of the two'),
                (('--job', 'xyz'), 'found "xyz"'),
                (('--job', '0123456789abcdef0'), 'up to 16 digits'),
                (('--interval', '-1'), '--interval'),
                (('--stalled', 'soon'), 'found "soon"'),
                (('--jsno',), 'did you mean --json?'),
                ((path,), 'too short for a flight record of libcoll'),
                ((folder + '/none',), 'cannot be opened')):
            status, out, err = ras(*args)
            expect(status == 2 and err.startswith('coll_ras: ')
                   and err.count('\n') == 1 and words in err and not out,
                   args, status, out, err)


sys.exit(tap.run())
