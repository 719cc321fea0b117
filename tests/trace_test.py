# SPDX-License-Identifier: MIT
"""The flight recorder and coll_trace, from outside.

Usage: trace_test.py BUILD_DIR; prints TAP. The jobs are those of record_job.c.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
COLLRUN = os.path.join(BUILD, 'collrun')
TRACE = os.path.join(BUILD, 'coll_trace')
JOB = os.path.join(BUILD, 'record_job')
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith('COLL_')},
       'COLL_STORE': 'off'}


def start(folder, *args, ranks=3, options=(), **settings):
    env = {**ENV, **settings}
    if folder:
        env['COLL_RECORDER'] = folder
    return subprocess.Popen([COLLRUN, '-n', str(ranks), *options, JOB,
                             *map(str, args)], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(folder, *args, **how):
    """Returns (status, stderr)."""
    job = start(folder, *args, **how)
    _, err = job.communicate(timeout=60)
    return job.returncode, err


def trace(*args, **settings):
    """Returns (status, stdout, stderr)."""
    done = subprocess.run([TRACE, *args], env={**ENV, **settings}, text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def records(folder):
    return sorted(glob.glob(os.path.join(folder, 'coll-*.rec')))


def in_folder(test):
    def wrapped():
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    wrapped.__name__ = test.__name__
    return case(wrapped)


@in_folder
def test_an_orderly_end_leaves_nothing(folder):
    status, err = run(folder, 'orderly', 3000)
    expect(status == 0 and not err, status, err)
    expect(not os.listdir(folder), os.listdir(folder))


@in_folder
def test_of_a_killed_rank_all_is_read(folder):
    status, _ = run(folder, 'kill', 5000)
    expect(status != 0, 'a rank was killed, but collrun says 0')
    expect(len(records(folder)) == 3, os.listdir(folder))
    expect(all(os.stat(path).st_mode & 0o777 == 0o600
               for path in records(folder)), 'others may read it')
    status, out, err = trace(folder)
    expect(status == 0 and not err, status, err)
    expect(re.search(r'rank 2 \(host \S+, process \d+, which is gone\) ended '
                     r'operation 5000, allreduce of 1 f64, sum\n', out), out)
    expect(re.search(r'Ranks? [\d, -]*2 never came to operation 5001, which is '
                     r'allreduce of 1 f64, sum of rank', out), out)
    expect(re.search('From operation 295[45] to 500', out), out)


@in_folder
def test_a_hang_is_told_while_it_lasts(folder):
    job = start(folder, 'hang', 20)
    try:
        for _ in range(200):
            time.sleep(.05)
            _, out, _ = trace(folder)
            if 'Rank 2 never came to operation 21, which is allreduce of 1 ' \
                    'f64, sum of ranks 0-1.' in out:
                break
        else:
            expect(False, out)
        expect(len(re.findall(r'rank [01] \(host \S+, process \d+\) is in '
                              r'operation 21, ', out)) == 2, out)
        expect(re.search(r'rank 2 \(host \S+, process \d+\) ended operation 20',
                         out), out)
    finally:
        job.terminate()
        job.communicate(timeout=60)


@in_folder
def test_a_divergence_names_both_calls(folder):
    run(folder, 'differ')
    path = os.path.join(folder, 'trace.json')
    status, out, err = trace(folder, '-o', path)
    expect(status == 1 and not err, status, err)
    with open(path, encoding='utf-8') as file:
        expect(len(re.findall('"reduce_scatter_v of 6 f64, min, lengths #'
                              '[0-9a-f]{8}"', file.read())) == 3,
               'the v-call before it')
    expect(re.search(r'Ranks diverged at operation 12: (?=.*\brank 1 called '
                     r'reduce of 8 f64, max, root 2)(?=.*ranks? 0(, 2)? called '
                     r'allreduce of 8 f64, sum)', out)
           or 'Ranks diverged at operation 12: ranks 0, 2 called allreduce of '
              '8 f64, sum; rank 1 called reduce of 8 f64, max, root 2.' in out,
           out)


def messages(folder, n, **settings):
    """Starts the job; returns it once all its ranks wait, and the verdict."""
    job = start(folder, 'messages', n, **settings)
    for _ in range(200):
        time.sleep(.05)
        status, out, err = trace(folder)
        if ('Rank 0 waits in a receive of at most 1 f64' in out
                and 'Rank 1 waits in a send of 100000' in out):
            break
    expect(status == 0 and not err, status, err)
    return job, out


@in_folder
def test_of_messages_it_is_told_which_wait_in_vain(folder):
    for settings in {}, {'COLL_TRANSPORT': 'ucx'}:
        job, out = messages(folder, 20, **settings)
        path = os.path.join(folder, 'trace.json')
        try:
            expect(re.search(
                r'Rank 0 waits in a receive of at most 1 f64 from rank 1 with '
                r'tag 9, begun [^ ]* s before the last event, for which rank 1 '
                r'has made no send\.\n', out), out)
            expect(re.search(
                r'Rank 1 waits in a send of 100000 f64 to rank 2 with tag 3, '
                r'begun [^ ]* s before the last event, for which rank 2 has '
                r'made no receive\.\n', out), out)
            expect(trace(folder, '-o', path)[0] == 0, 'no trace')
        finally:
            job.terminate()
            job.communicate(timeout=60)
        with open(path, encoding='utf-8') as file:
            events = [e for e in json.load(file)['traceEvents']
                      if e.get('cat') == 'message']
        begun = [e for e in events if e['ph'] == 'b']
        ended = {e['id']: e['ts'] for e in events if e['ph'] == 'e'}
        calls = [e['args']['call'] for e in begun if e['tid'] == 0]
        expect(len(begun) == len(ended) == 3 * 40 + 3, len(begun), len(ended))
        expect(all(ended[e['id']] >= e['ts'] for e in begun), 'ends too early')
        # Whose a message of anybody was is known afterwards.
        expect(calls == ['send of 2 f64 to rank 2 with tag 7',
                         'receive of 2 f64 from rank 1 with tag 7'] * 20
               + ['receive of at most 1 f64 from rank 1 with tag 9'], calls)
        for path in records(folder):
            os.remove(path)


@in_folder
def test_many_messages_leave_the_collectives(folder):
    job, out = messages(folder, 3000)
    job.terminate()
    job.communicate(timeout=60)
    expect('for which' not in out, out)
    expect('Rank 2 never' not in out, out)
    expect(re.search(r'rank 2 \(.*\) is in operation 1, allreduce of 1 f64',
                     out), out)


@in_folder
def test_a_job_by_messages_is_on_record_too(folder):
    run(folder, 'differ', COLL_TRANSPORT='ucx')
    status, out, _ = trace(folder)
    expect(status == 1 and 'Ranks diverged at operation' in out, status, out)


@in_folder
def test_a_child_of_fork_writes_and_removes_nothing(folder):
    run(folder, 'fork', ranks=1)
    expect(len(records(folder)) == 1, os.listdir(folder))
    _, out, _ = trace(folder)
    expect(re.search(r'which is gone\) ended operation 5, allreduce of 1 f64, '
                     r'sum\n', out), out)


@in_folder
def test_the_trace_has_a_row_for_each_rank(folder):
    run(folder, 'kill', 50)
    path = os.path.join(folder, 'trace.json')
    status, _, err = trace(folder, '-o', path)
    expect(status == 0, err)
    with open(path, encoding='utf-8') as file:
        events = json.load(file)['traceEvents']
    spans = [e for e in events if e['ph'] == 'X']
    for rank in range(3):
        row = [e for e in spans if e['tid'] == rank]
        expect(len(row) in (50, 51), rank, len(row))
        expect(all(a['ts'] + a['dur'] <= b['ts'] + 1e-2
                   for a, b in zip(row, row[1:])), 'operations overlap')
        expect([e['args']['operation'] for e in row]
               == list(range(1, len(row) + 1)), row)
    # One clock: none ends before all have begun. Who loses the processor
    # between sending its vector and looking at the clock seems to begin late.
    late = 0
    for number in range(1, 50):
        same = [e for e in spans if e['args']['operation'] == number]
        late += (max(e['ts'] for e in same)
                 > min(e['ts'] + e['dur'] for e in same) + 5)
    expect(late < 5, late, spans)
    names = [e['args']['name'] for e in events if e['name'] == 'thread_name']
    expect([n.split(' (')[0] for n in names] == ['rank 0', 'rank 1', 'rank 2'],
           names)


@in_folder
def test_jobs_are_told_apart(folder):
    run(folder, 'kill', 10)
    first = os.path.basename(records(folder)[0]).split('-')[1]
    run(folder, 'differ')
    status, out, _ = trace(folder)
    expect(status == 1 and out.count('Job ') == 2, out)
    expect(out.index(first) < out.index('diverged'), 'not the oldest first')
    status, out, _ = trace(folder, '--job', first[:12])
    expect(status == 0 and out.count('Job ') == 1 and first in out, out)
    status, out, _ = trace(*[p for p in records(folder) if first in p][:2])
    expect('kept elsewhere): rank 2.' in out, out)


@in_folder
def test_statistics_are_by_collective(folder):
    status, err = run(folder, 'count')
    expect(status == 0, status, err)


@in_folder
def test_failures_are_counted(folder):
    _, err = run(folder, 'failures')
    expect(err.count('2 finished, 2 failed') == 2, err)


@in_folder
def test_off_records_nothing_but_counts(folder):
    status, err = run('off', 'count', HOME=folder, XDG_RUNTIME_DIR=folder)
    expect(status == 0 and not err, status, err)
    expect(not os.listdir(folder), os.listdir(folder))


@in_folder
def test_the_default_folder_is_the_users_own(folder):
    own = os.path.join(folder, 'libcoll')
    run(None, 'kill', 5, XDG_RUNTIME_DIR=folder)
    expect(len(records(own)) == 3, os.listdir(folder))
    expect(os.stat(own).st_mode & 0o777 == 0o700, 'others may look into it')
    status, out, _ = trace(XDG_RUNTIME_DIR=folder)
    expect(status == 0 and '3 on record' in out, out)


@in_folder
def test_a_folder_open_to_others_is_not_the_default(folder):
    own = os.path.join(folder, 'libcoll')
    os.mkdir(own)
    os.chmod(own, 0o777)
    status, err = run(None, 'orderly', 5, XDG_RUNTIME_DIR=folder)
    expect(status == 0, status)
    expect(err.count('not this user\'s alone') == 1, err)
    expect(not os.listdir(own), os.listdir(own))


@in_folder
def test_where_no_file_can_be_the_job_goes_on(folder):
    for path in '/proc/none', '/dev/null', os.path.join(folder, 'a/b'):
        status, err = run(path, 'orderly', 5)
        expect(status == 0, path, status)
        expect(err.count('no flight record is kept') == 1, err)
    status, err = run(path, 'orderly', 5, COLL_LOG='off')
    expect(status == 0 and not err, err)


@in_folder
def test_without_a_file_different_calls_are_told(folder):
    for path in 'off', os.path.join(folder, 'a/b'):
        # So that none is ended by collrun before it has told.
        _, err = run(path, 'differ', options=['--keep-going'], COLL_LOG='off')
        expect(err.count('rank 1 called reduce of 8 f64, max, root 2') == 3
               and err.count('called allreduce of 8 f64, sum') == 3, path, err)


@in_folder
def test_a_file_too_long_for_the_limit_is_no_signal(folder):
    done = subprocess.run(['sh', '-c', f'ulimit -f 64; exec {JOB} orderly 5'],
                          env={**ENV, 'COLL_RECORDER': folder}, text=True,
                          capture_output=True, timeout=60, check=False)
    expect(done.returncode == 0, done.returncode, done.stderr)
    expect('File too large' in done.stderr, done.stderr)
    expect(not os.listdir(folder), os.listdir(folder))


@in_folder
def test_a_full_file_system_is_no_signal(folder):
    script = (f'mount -t tmpfs -o size=64k none {folder} || exit 77; '
              f'{JOB} orderly 5; echo $?; ls {folder}')
    done = subprocess.run(['unshare', '-rm', 'sh', '-c', script],
                          env={**ENV, 'COLL_RECORDER': folder}, text=True,
                          capture_output=True, timeout=60, check=False)
    if done.returncode == 77 or 'unshare' in done.stderr:
        raise tap.Skip('no mounts here')
    expect(done.stdout == '0\n', done.stdout, done.stderr)
    expect('No space left' in done.stderr, done.stderr)


@in_folder
def test_what_is_no_record_gets_one_line(folder):
    run(folder, 'kill', 5)
    paths = records(folder)
    with open(paths[0], 'r+b') as file:
        file.truncate(50000)
    with open(paths[1], 'r+b') as file:
        file.write(b'rubbish!')
    status, out, err = trace(folder)
    expect(status == 2 and out.count(', 1 on record:') == 1, status, out)
    expect(err.splitlines() == [
        f'coll_trace: {paths[0]}: cut off: 50000 bytes, whole are 270336',
        f'coll_trace: {paths[1]}: no flight record of libcoll'], err)
    for path in '/dev/zero', '/nonexistent', TRACE:
        status, out, err = trace(path)
        expect(status == 2 and err.count('\n') == 1 and path in err, err)


@case
def test_bad_options_get_one_line_and_status_2():
    for args in ['--job', 'xyz'], ['--jobs'], ['-o', '/nonexistent/x']:
        status, out, err = trace(*args)
        expect(status == 2 and not out, status, out)
        expect(err.startswith('coll_trace: ') and err.count('\n') == 1, err)


if __name__ == '__main__':
    sys.exit(tap.run())
