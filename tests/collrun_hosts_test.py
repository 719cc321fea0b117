# SPDX-License-Identifier: MIT
"""collrun on several hosts, with a stand-in for ssh.

Usage: collrun_hosts_test.py BUILD_DIR [CLAIM...]; prints TAP. Each test is a
function whose name is its claim.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from collrun_kit import (FAKE_SSH, TMP, equal, has, main, mark, refused, run,
                         spread, start, wait_for, with_marker)  # noqa: E402


def hosts_are_started_over_rsh():
    open(f'{TMP}/fake_ssh.log', 'w', encoding='utf-8').close()
    status, out, err = run('--hosts', 'alpha:2,beta:2', '--no-bind', '--rsh',
                           FAKE_SSH, '--env', 'A=b c', '--label', 'sh', '-c',
                           'echo "$FAKE_HOST $COLL_ROOT $COLL_JOB_KEY $A '
                           '$PWD $UCX_TRY"', env={'UCX_TRY': '1'})
    equal((status, err), (0, ''))
    lines = sorted(out.splitlines())
    equal([line.split()[:2] for line in lines],
          [['[0]', 'alpha'], ['[1]', 'alpha'], ['[2]', 'beta'],
           ['[3]', 'beta']])
    equal(len({tuple(line.split()[2:]) for line in lines}), 1)
    root, key = lines[0].split()[2:4]
    equal(bool(re.fullmatch(r'alpha:\d+', root)), True)
    equal(lines[0].split()[4:], ['b', 'c', os.getcwd(), '1'])
    with open(f'{TMP}/fake_ssh.log', encoding='utf-8') as f:
        log = f.read()
    equal(log.count('--agent'), 2)
    equal(key in log, False)


def a_failure_on_one_host_ends_the_others():
    status, _, err = run('--hosts', 'a:2,b:2', '--rsh', FAKE_SSH, '--no-bind',
                         *mark('hosts'), 'sh', '-c',
                         '[ $COLL_RANK = 3 ] && exit 6; sleep 100')
    equal((status, with_marker('hosts')), (6, []))
    has(err, 'rank 3 on b (pid ')
    has(err, 'ranks 0-2: ended by collrun')


def sigkill_of_collrun_reaches_other_hosts():
    job = spread('far', 6, '--hosts', 'a,b', '--rsh', FAKE_SSH)
    job.kill()
    job.communicate()
    wait_for(lambda: not with_marker('far'))


def a_hostfile_does_the_same():
    path = os.path.join(TMP, 'hostfile')
    with open(path, 'w', encoding='utf-8') as f:
        f.write('# two machines\nalpha:2\n\n  beta slots=2 # more\n')
    status, out, _ = run('--hostfile', path, '-n', 3, '--rsh', FAKE_SSH,
                         '--no-bind', 'sh', '-c', 'echo $COLL_RANK$FAKE_HOST')
    equal((status, sorted(out.split())), (0, ['0alpha', '1alpha', '2beta']))
    with open(path, 'w', encoding='utf-8') as f:
        f.write('alpha:2\nbeta slots=x\n')
    refused(f'{path}:2: found "beta:x"', '--hostfile', path, 'true')
    refused('/nowhere: No such file', '--hostfile', '/nowhere', 'true')


def hosts_that_do_not_answer_are_named():
    status, _, err = run('--hosts', 'a,down', '--rsh', FAKE_SSH, 'true')
    equal(status, 1)
    has(err, 'connect to host down: refused')
    has(err, 'host down: cannot be reached')
    status, _, err = run('--hosts', 'chatty', '--rsh', FAKE_SSH, 'true')
    equal(status, 1)
    has(err, 'host chatty: found "Welcome to chatty')
    status, _, err = run('--hosts', 'silent,a', '--rsh', FAKE_SSH,
                         '--timeout', 0.5, 'true')
    equal(status, 1)
    has(err, 'host silent: its agent did not answer in time')
    status, _, err = run('--hosts', 'a', '--rsh', FAKE_SSH, '--collrun',
                         '/no/collrun', 'true')
    equal(status, 1)
    has(err, '/no/collrun')
    status, _, err = run('--hosts', 'a', '--rsh', '/no/ssh', 'true')
    equal(status, 1)
    has(err, '--rsh: cannot run "/no/ssh"')


def bad_host_lists_are_refused():
    for hosts in ('', 'a,', 'a:', 'a:0', 'a:x', 'a:2x', '-oProxyCommand=x',
                  'a b', '[::1', '[::1]x', 'a;b', 'a:99999'):
        refused(f'--hosts: found "{hosts.rpartition(",")[2]}"', '--hosts',
                hosts, 'true')
    refused('-n: found 5, valid is 1 to 4', '--hosts', 'a:2,b:2', '-n', 5,
            'true')


def the_agent_ends_on_bytes_that_make_no_sense():
    """At once, and on bytes that are only a beginning when its stdin ends."""
    def frame(kind, number=0, data=b''):
        return (len(data).to_bytes(4, 'little') + kind
                + number.to_bytes(4, 'little') + data)

    def serve(data, end):
        agent = start('--agent', stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        agent.stdin.write(data)
        agent.stdin.flush()
        if end:
            agent.stdin.close()
        equal(agent.wait(30), 1)
        equal(agent.stdout.read()[9:17], b'libcoll ')

    for data in (b'hello, are you there?', b'\xff' * 100, frame(b'z'),
                 frame(b's'), frame(b'i', 0, b'x'), frame(b'k', 0),
                 frame(b'k', 2**32 - 1), frame(b'r', 2**31), frame(b'o'),
                 frame(b'e', 0, b'no equals sign'), frame(b'e', 0, b'a=\0'),
                 frame(b'a', 0, b'a\0b'), frame(b'a', 0, b'x') + frame(b's'),
                 (128 * 1024 + 1).to_bytes(4, 'little') + b'a' * 50):
        serve(data, False)
    for data in (b'', b'\1\0\0', frame(b'a', 0, b'x')[:9], frame(b'r')):
        serve(data, True)


if __name__ == '__main__':
    sys.exit(main(globals()))
