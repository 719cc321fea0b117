# SPDX-License-Identifier: MIT
"""For the tests of collrun: it, jobs of it, and what they leave behind."""
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402

COLLRUN = os.path.join(os.path.abspath(sys.argv[1]), 'collrun')
TMP = tempfile.mkdtemp(prefix='collrun_test.')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}

# Stands in for ssh: the command runs here, in the way sshd would run it. It
# notes its arguments, and can refuse a host.
FAKE_SSH = os.path.join(TMP, 'fake_ssh')
with open(FAKE_SSH, 'w', encoding='utf-8') as file:
    file.write('#!/bin/sh\n'
               f'echo "$@" >> {TMP}/fake_ssh.log\n'
               'host=$1; shift\n'
               'case $host in\n'
               'down) echo "connect to host down: refused" >&2; exit 255;;\n'
               'chatty) echo "Welcome to chatty";;\n'
               'silent) exec sleep 60;;\n'
               'esac\n'
               'cd / && FAKE_HOST=$host exec sh -c "$*"\n')
os.chmod(FAKE_SSH, 0o755)


def run(*args, stdin=b'', env=None, timeout=60):
    """Returns (status, stdout, stderr) of collrun with these arguments."""
    done = subprocess.run([COLLRUN, *map(str, args)], input=stdin,
                          capture_output=True, timeout=timeout,
                          env={**ENV, **(env or {})}, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


JOBS = []


def start(*args, **options):
    job = subprocess.Popen([COLLRUN, *map(str, args)], env=ENV,
                           **{'stdin': subprocess.DEVNULL, **options})
    JOBS.append(job)
    return job


def equal(found, expected):
    if found != expected:
        raise AssertionError(f'found {found!r}, expected {expected!r}')


def has(text, part):
    if part not in text:
        raise AssertionError(f'{part!r} is not in {text!r}')


def refused(sentence, *args):
    """Bad input: status 2 and one line that holds the sentence."""
    status, out, err = run(*args)
    equal((status, out, err.count('\n')), (2, '', 1))
    has(err, sentence)
    equal(err.startswith('collrun: '), True)


def mark(marker):
    return ['--env', f'MARKER={marker}.{os.getpid()}']


def with_marker(marker):
    """Pids of living processes of jobs with mark(marker)."""
    wanted = mark(marker)[1].encode()
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as f:
                if wanted not in f.read().split(b'\0'):
                    continue
            with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
                if f.read().rpartition(')')[2].split()[0] not in 'ZX':
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_for(what, seconds=30):
    """Polls what() until it is true; says how long that took."""
    since = time.monotonic()
    while not what():
        if time.monotonic() - since > seconds:
            raise AssertionError(f'nothing happened in {seconds} s')
        time.sleep(0.01)
    return time.monotonic() - since


def spread(marker, count, *before):
    """Starts a job that sleeps, once `count` marked processes are there."""
    job = start(*before, *mark(marker), 'sh', '-c',
                'sleep 100 & (setsid sleep 100 &) ; wait',
                stderr=subprocess.PIPE)
    wait_for(lambda: len(with_marker(marker)) == count)
    return job


def alone(test):
    """The test, and an end to the jobs that it started."""
    def run_it():
        try:
            test()
        finally:
            while JOBS:
                job = JOBS.pop()
                if job.poll() is None:
                    job.kill()
                    job.wait()
    return run_it


def main(names):
    """Runs the functions without arguments among names, a module's globals()
    whose names are claims; on the command line some can be chosen. Returns the
    exit status."""
    tests = [(tap.claim(f), alone(f)) for f in names.values()
             if callable(f) and getattr(f, '__module__', '') == '__main__'
             and f.__code__.co_argcount == 0 and '_' in f.__name__]
    status = tap.run(tap.chosen(tests))
    subprocess.run(['rm', '-rf', TMP], check=True)
    return status
