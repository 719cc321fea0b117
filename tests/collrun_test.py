# SPDX-License-Identifier: MIT
"""collrun from outside: what users see, and that nothing is left behind.

Usage: collrun_test.py BUILD_DIR [CLAIM...]; prints TAP. Each test is a
function whose name is its claim.
"""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from collrun_kit import (COLLRUN, ENV, FAKE_SSH, TMP, equal, has, main, mark,
                         refused, run, spread, start, wait_for, with_marker)  # noqa: E402


def ranks_get_their_variables():
    status, out, err = run('-n', 3, '--timeout', 7.5, 'sh', '-c',
                           'echo $COLL_RANK $COLL_NRANKS $COLL_ROOT '
                           '$COLL_JOB_KEY $COLL_JOIN_SECONDS')
    equal((status, err), (0, ''))
    lines = sorted(line.split() for line in out.splitlines())
    equal([line[0] for line in lines], ['0', '1', '2'])
    equal(len({tuple(line[1:]) for line in lines}), 1)
    equal((lines[0][1], lines[0][4]), ('3', '7.5'))
    equal(bool(re.fullmatch(r'127\.0\.0\.1:\d+', lines[0][2])), True)
    equal(bool(re.fullmatch(r'[0-9a-f]{32}', lines[0][3])), True)


def the_port_is_none_that_connections_get():
    path = '/proc/sys/net/ipv4/ip_local_port_range'
    with open(path, encoding='utf-8') as f:
        first = int(f.read().split()[0])
    for _ in range(5):
        out = run('-n', 1, 'sh', '-c', 'echo $COLL_ROOT')[1]
        port = int(out.rsplit(':', 1)[1])
        equal(first <= 16384 or 16384 <= port < first, True)


def each_job_has_its_own_key():
    keys = {run('-n', 1, 'sh', '-c', 'echo $COLL_JOB_KEY')[1]
            for _ in range(3)}
    equal(len(keys), 3)


def env_is_passed_on():
    status, out, _ = run('-n', 2, '--env', 'A=1 2', '--env=B', 'sh', '-c',
                         'echo "$A/$B"', env={'B': 'x'})
    equal((status, out), (0, '1 2/x\n' * 2))
    refused('--env: found "NOT_SET_HERE", valid is NAME=VALUE', '-n', 1,
            '--env', 'NOT_SET_HERE', 'true')
    refused('--env: found "=x"', '-n', 1, '--env', '=x', 'true')


def arguments_arrive_unchanged():
    words = ['a b', '', '*', '$HOME', '-n', '--', "'", 'ü']
    status, out, _ = run('-n', 1, 'printf', '<%s>', *words)
    equal((status, out), (0, ''.join(f'<{word}>' for word in words)))


def exit_status_is_that_of_the_failing_rank():
    equal(run('-n', 3, 'true'), (0, '', ''))
    status, _, err = run('-n', 3, 'sh', '-c',
                         '[ $COLL_RANK = 1 ] && exit 3; sleep 100')
    equal(status, 3)
    lines = err.splitlines()
    equal(bool(re.fullmatch(r'collrun: rank 1 on localhost \(pid \d+\) exited '
                            'with status 3', lines[0])), True)
    equal(lines[1:], ['collrun: ranks 0, 2: ended by collrun because of it'])


def death_by_signal_is_named():
    status, _, err = run('-n', 2, 'sh', '-c',
                         '[ $COLL_RANK = 1 ] && kill -SEGV $$; sleep 100')
    equal(status, 128 + signal.SIGSEGV)
    has(err, 'was killed by signal 11 (Segmentation fault)')


def first_failure_comes_first():
    _, _, err = run('-n', 3, '--keep-going', 'sh', '-c',
                    'case $COLL_RANK in 2) exit 4;; '
                    '*) while [ ! -e $GO ]; do sleep 0.02; done; '
                    'exit $COLL_RANK;; esac & '
                    'pid=$!; wait $pid; s=$?; [ $COLL_RANK = 2 ] && '
                    '{ (while kill -0 $$ 2>/dev/null; do sleep 0.02; done; '
                    'touch $GO) & } ; exit $s',  # once collrun has seen it
                    env={'GO': os.path.join(TMP, 'go')})
    equal(re.findall(r'rank (\d)', err), ['2', '1'])


TELL = ('printf x | dd of=$COLL_TOLD bs=1 seek=$COLL_RANK conv=notrunc '
        '2>/dev/null; ')


def who_was_told_of_a_failure_counts_last():
    """They end first, after a word that another one has failed."""
    for told, said in (('0', ['rank 0: failed because of it',
                              'rank 1: ended by collrun because of it']),
                       ('01', ['ranks 0, 1: failed because of it'])):
        status, _, err = run('-n', 3, 'sh', '-c',
                             f'case $COLL_RANK in [{told}]) {TELL} '
                             'echo $$ >$ENDED$COLL_RANK; exit 1;; '
                             f'2) for r in {" ".join(told)}; do '
                             'until [ -s $ENDED$r ] && '  # and collrun knows
                             '! kill -0 $(cat $ENDED$r); do sleep 0.02; done '
                             '2>/dev/null; done; exit 5;; esac; sleep 100',
                             env={'ENDED': os.path.join(TMP, f'ended{told}_')})
        equal(status, 5)
        lines = err.splitlines()
        has(lines[0], 'collrun: rank 2 on localhost')
        equal(lines[1:], ['collrun: ' + line for line in said])


def who_was_told_is_named_where_nobody_had_a_reason():
    _, _, err = run('-n', 3, 'sh', '-c', f'{TELL} exit 1')
    equal(sorted(re.findall(r'rank (\d) on localhost', err)), ['0', '1', '2'])
    equal('because' in err, False)


def a_job_of_which_all_were_told_ends_in_time():
    since = time.monotonic()
    status, _, err = run('-n', 2, 'sh', '-c', '[ $COLL_RANK = 1 ] && '
                         f'exec sleep 100; {TELL} exit 3')
    equal(status, 3)
    equal(1.9 < time.monotonic() - since < 10, True)
    has(err, 'rank 1: ended by collrun')


def killing_one_rank_ends_the_job_in_time():
    marker = 'one'
    job = start('-n', 4, *mark(marker), 'sleep', 100,
                stderr=subprocess.PIPE)
    wait_for(lambda: len(with_marker(marker)) == 4)
    os.kill(with_marker(marker)[0], signal.SIGKILL)
    since = time.monotonic()
    err = job.communicate(timeout=30)[1].decode()
    equal(time.monotonic() - since < 5, True)
    equal((job.returncode, with_marker(marker)), (137, []))
    has(err, 'was killed by signal 9 (Killed)')


def ranks_that_ignore_sigterm_are_killed():
    since = time.monotonic()
    status, _, err = run('-n', 3, *mark('deaf'), 'sh', '-c',
                         'trap "" TERM; [ $COLL_RANK = 0 ] && '
                         '{ sleep 0.2; exit 5; }; sleep 100')
    equal((status, with_marker('deaf')), (5, []))
    equal(1.9 < time.monotonic() - since < 20, True)
    has(err, 'ranks 1, 2: ended by collrun')


def sigterm_to_collrun_ends_all():
    job = spread('term', 6, '-n', 2)
    job.send_signal(signal.SIGTERM)
    err = job.communicate(timeout=30)[1].decode()
    equal((job.returncode, with_marker('term')), (143, []))
    has(err, 'ranks 0, 1: ended by signal 15 (Terminated), which collrun '
             'passed on')


def a_signal_that_is_passed_on_is_named():
    job = spread('usr1', 6, '-n', 2)
    job.send_signal(signal.SIGUSR1)
    err = job.communicate(timeout=30)[1].decode()
    equal(with_marker('usr1'), [])
    has(err, 'ended by signal 10 (User defined signal 1), which collrun passed')


def second_interrupt_kills():
    job = start('-n', 2, *mark('twice'), 'sh', '-c',
                'trap "echo no" INT; echo ready; while :; do sleep 0.1; done',
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(2):
        equal(job.stdout.readline(), b'ready\n')
    job.send_signal(signal.SIGINT)
    for _ in range(2):
        equal(job.stdout.readline(), b'no\n')
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=30)
    equal((job.returncode, with_marker('twice')), (137, []))


def sigusr1_reaches_every_rank():
    """And its children, as it would at a terminal."""
    handle = 'trap "echo got; exit 0" USR1; echo ready; '
    job = start('-n', 2, 'sh', '-c', '(' + handle +
                'while :; do sleep 0.05; done) & ' + handle +
                'while :; do sleep 0.05; done',
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for _ in range(4):
        equal(job.stdout.readline(), b'ready\n')
    job.send_signal(signal.SIGUSR1)
    equal(job.communicate(timeout=30)[0], b'got\n' * 4)


def sigkill_of_collrun_leaves_nothing():
    job = spread('killed', 6, '-n', 2)
    job.kill()
    job.communicate()
    wait_for(lambda: not with_marker('killed'))


def children_of(pid):
    found = []
    for other in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{other}/stat', encoding='utf-8') as f:
                if int(f.read().rpartition(')')[2].split()[1]) == pid:
                    found.append(int(other))
        except OSError:
            pass
    return found


def sigkill_of_the_agent_leaves_nothing():
    for depth in (1, 2):  # its guard, itself
        marker = f'agent{depth}'
        job = spread(marker, 6, '-n', 2)
        victim = job.pid
        for _ in range(depth):
            victim = children_of(victim)[0]
        os.kill(victim, signal.SIGKILL)
        err = job.communicate(timeout=30)[1].decode()
        equal(job.returncode, 1)
        has(err, 'host localhost: lost with 2 ranks')
        wait_for(lambda: not with_marker(marker))


def sigkill_of_the_agent_and_its_guard_leaves_no_rank():
    job = start('-n', 2, *mark('both'), 'sleep', 100,
                stderr=subprocess.PIPE)
    wait_for(lambda: len(with_marker('both')) == 2)
    os.killpg(children_of(job.pid)[0], signal.SIGKILL)
    job.communicate(timeout=30)
    equal(job.returncode, 1)
    wait_for(lambda: not with_marker('both'))


def orphans_end_with_the_job():
    status, _, _ = run('-n', 2, *mark('orphan'), 'sh', '-c',
                       '(setsid sleep 100 >/dev/null 2>&1 &) ; exit 0')
    equal((status, with_marker('orphan')), (0, []))


def labels_begin_every_line():
    status, out, err = run('-n', 3, '--label', 'sh', '-c',
                           'echo a; echo b; printf c; echo e >&2')
    equal(status, 0)
    equal(sorted(out.replace('c[', 'c\n[').split()),
          sorted(w for r in range(3) for x in 'abc' for w in (f'[{r}]', x)))
    equal(sorted(err.splitlines()), ['[0] e', '[1] e', '[2] e'])
    for line in out.splitlines():
        equal(bool(re.fullmatch(r'\[\d\] [abc]', line)), True)


def lines_are_never_mixed():
    program = ('import os,sys\nr=os.environ["COLL_RANK"]\n'
               'for i in range(300):\n'
               ' sys.stdout.write(r * (i * 131 % 60000) + "\\n")\n'
               ' sys.stdout.flush()')
    status, out, _ = run('-n', 3, sys.executable, '-c', program)
    lines = out.splitlines()
    equal((status, len(lines)), (0, 900))
    for rank in '012':
        mine = [line for line in lines if line.strip(rank) == '' and line]
        equal([len(line) for line in mine],
              [n for n in (i * 131 % 60000 for i in range(300)) if n])


def long_lines_are_intact():
    program = 'print("x" * 1000000); print("y" * 200000, end="")'
    status, out, _ = run('-n', 1, sys.executable, '-c', program)
    equal(status, 0)
    equal(out == 'x' * 1000000 + '\n' + 'y' * 200000, True)
    _, out, _ = run('-n', 1, '--label', sys.executable, '-c', program)
    equal(out == '[0] ' + 'x' * 1000000 + '\n[0] ' + 'y' * 200000, True)


def binary_output_is_unchanged():
    done = subprocess.run([COLLRUN, '-n', '1', 'head', '-c', '300000',
                           '/dev/urandom'], capture_output=True, check=True,
                          env=ENV)
    equal(len(done.stdout), 300000)
    done = subprocess.run([COLLRUN, '-n', '1', 'cat'], input=done.stdout,
                          capture_output=True, check=True, env=ENV)
    equal(len(done.stdout), 300000)


def closed_stdout_ends_the_job():
    job = start('-n', 2, *mark('yes'), 'yes', stdout=subprocess.PIPE,
                stderr=subprocess.PIPE)
    equal(job.stdout.readline(), b'y\n')
    job.stdout.close()
    equal((job.wait(30), job.stderr.read()), (128 + signal.SIGPIPE, b''))
    equal(with_marker('yes'), [])


def a_full_disk_ends_the_job_with_a_sentence():
    with open('/dev/full', 'wb') as full:
        job = start('-n', 2, *mark('full'), 'yes', stdout=full,
                    stderr=subprocess.PIPE)
        err = job.communicate(timeout=30)[1].decode()
    equal((job.returncode, with_marker('full')), (1, []))
    has(err, 'collrun: cannot write to standard output: No space left')


def ranks_see_the_terminal():
    """Only with a terminal and without --label."""
    for label, expected in (([], b'True'), (['--label'], b'[0] False')):
        ours, theirs = pty.openpty()
        job = start('-n', 1, *label, sys.executable, '-c',
                    'import os; print(os.isatty(1))', stdout=theirs)
        os.close(theirs)
        equal(os.read(ours, 100).strip(), expected)
        equal(job.wait(30), 0)
        os.close(ours)


def keep_going_lets_the_others_finish():
    status, out, err = run('-n', 3, '--keep-going', 'sh', '-c',
                           '[ $COLL_RANK = 1 ] && exit 7; sleep 0.3; echo on')
    equal((status, out), (7, 'on\n' * 2))
    equal(err.count('\n'), 1)
    has(err, 'rank 1 on localhost')


def restart_starts_again():
    mark = os.path.join(TMP, 'failed_once')
    script = (f'echo $COLL_JOB_KEY; [ $COLL_RANK = 1 ] || exit 0; '
              f'[ -e {mark} ] || {{ touch {mark}; exit 9; }}')
    status, out, err = run('-n', 2, '--restart', 2, 'sh', '-c', script)
    equal(status, 0)
    equal(len(set(out.split())), 2)
    has(err, 'exited with status 9')
    has(err, 'collrun: starting the job again (1 of 2)')
    equal('2 of 2' in err, False)
    status, _, err = run('-n', 1, '--restart', 2, 'false')
    equal((status, err.count('starting the job again')), (1, 2))


def restart_does_not_defy_the_user():
    job = spread('stubborn', 3, '-n', 1, '--restart', 3)
    job.send_signal(signal.SIGTERM)
    err = job.communicate(timeout=30)[1].decode()
    equal((job.returncode, 'again' in err), (143, False))


def stdin_goes_to_rank_0_only():
    data = bytes(range(256)) * 2000
    status, out, _ = run('-n', 3, 'sh', '-c',
                         'echo $COLL_RANK $(wc -c)', stdin=data)
    equal((status, sorted(out.splitlines())), (0, ['0 512000', '1 0', '2 0']))


def unread_stdin_does_no_harm():
    equal(run('-n', 2, 'true', stdin=b'x' * 1000000), (0, '', ''))


def programs_that_cannot_run_are_named():
    for args in (['-n', 2], ['--hosts', 'a,b', '--rsh', FAKE_SSH]):
        status, _, err = run(*args, './no_such_program')
        equal((status, err.count('\n')), (2, 1))
        has(err, 'cannot run "./no_such_program"')
        has(err, 'No such file or directory')


def the_key_is_in_no_command_line():
    for args in (['-n', 2], ['--hosts', 'a,b', '--rsh', FAKE_SSH]):
        status, out, _ = run(*args, '--no-bind', sys.executable, '-c',
                             'import os, glob\n'
                             'key = os.environ["COLL_JOB_KEY"].encode()\n'
                             'for path in glob.glob("/proc/[0-9]*/cmdline"):\n'
                             ' try: found = key in open(path, "rb").read()\n'
                             ' except OSError: continue\n'
                             ' if found: print(path)\n'
                             'print("looked")')
        equal((status, out), (0, 'looked\n' * 2))


def ranks_are_bound_to_cores_of_their_own():
    show = (sys.executable, '-c',
            'import os; print(sorted(os.sched_getaffinity(0)))')
    allowed = os.sched_getaffinity(0)
    cores = len(allowed)
    status, out, err = run('-n', 2, *show)
    equal((status, err), (0, ''))
    sets = [set(json.loads(line)) for line in out.splitlines()]
    if sets[0] == allowed and cores > 1:
        # Two hardware threads of one core, or a quota of less than two CPUs.
        has(run('-n', 2, '-v', 'true')[2], 'not bound')
    elif cores > 1:
        equal((len(sets), sets[0] & sets[1]), (2, set()))
        equal(sets[0] < allowed and sets[1] < allowed, True)
    for args in (['-n', cores + 6], ['-n', 2, '--no-bind'],
                 ['-n', 2, '--bind', 'none']):
        status, out, err = run(*args, *show)
        equal((status, err, set(out.splitlines())),
              (0, '', {str(sorted(allowed))}))
    _, _, err = run('-n', cores + 6, '--verbose', 'true')
    has(err, 'not bound')


def bad_options_are_refused():
    refused('--lable: no such option; did you mean --label?', '-n', 1,
            '--lable', 'true')
    refused('--xyzzy: no such option (collrun --help', '--xyzzy', 'true')
    refused('-q: no such option', '-n', 1, '-q', 'true')
    refused('-q in -vq: no such option', '-vq', 'true')
    refused('-n: found "0", valid is a whole number from 1 to', '-n', 0,
            'true')
    refused('-n: found "two", valid is a whole number', '-ntwo', 'true')
    refused('--ranks: found "-1"', '--ranks=-1', 'true')
    refused('--bind: found "cores", valid is core, none; did you mean core?',
            '-n', 1, '--bind', 'cores', 'true')
    refused('--timeout: found "nan"', '-n', 1, '--timeout', 'nan', 'true')
    refused('--label: found "=yes", valid is --label alone', '--label=yes',
            'true')
    refused('--restart: found nothing after it', '-n', 1, '--restart')
    refused('-n: found nothing', 'true')
    refused('found no program', '-n', 1)
    refused('found together with --hosts', '--hosts', 'a', '--hostfile', 'b',
            'true')
    refused('--rsh: found " "', '--hosts', 'a', '--rsh', ' ', 'true')


def options_end_at_the_program():
    equal(run('-n1', 'echo', '--label', '-n', '0')[1], '--label -n 0\n')
    equal(run('-ln', '1', '--', 'echo', 'x')[1], '[0] x\n')
    equal(run('-n', 5, '--ranks=1', 'echo', 'x')[1], 'x\n')


def help_and_version_are_there():
    status, out, err = run('--help')
    equal((status, err), (0, ''))
    for line in out.splitlines():
        equal(len(line) <= 80, True)
    for name in ('--ranks N', '--hosts LIST', '--restart N', '--keep-going',
                 'one of: core, none', '--version'):
        has(out, name)
    equal(run('-h')[1], out)
    equal(bool(re.fullmatch(r'collrun \(libcoll\) \d+\.\d+\.\d+\n',
                            run('--version')[1])), True)


if __name__ == '__main__':
    sys.exit(main(globals()))
