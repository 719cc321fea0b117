# SPDX-License-Identifier: MIT
"""Jobs side by side of which one runs while the others are stopped.

A machine that is slower now than a second ago is slower for each of them, so that what
they take compares better than what runs of many seconds one after another take.
"""
import ctypes
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

from compare_torch import Failed

LONG = 300  # seconds within which a job has begun to make steps
PR_SET_PDEATHSIG = 1


def processes_of(session):
    """Ranks have groups of their own, but the session of who started them."""
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat', encoding='utf-8',
                      errors='replace') as file:
                words = file.read().rpartition(')')[2].split()
        except OSError:  # it is gone
            continue
        if int(words[3]) == session and words[0] != 'Z':
            yield int(name)


def die_with_parent():
    """A stopped job would outlive us for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def names(process, path):
    """Whether it was started with this word."""
    try:
        with open(f'/proc/{process}/cmdline', 'rb') as file:
            return os.fsencode(path) in file.read().split(b'\0')
    except OSError:  # it is gone
        return False


class Job:
    """Stopped, but in run(). Its ranks write a line of JSON to a log for each step;
    if there are several logs each rank has the name of its own among its words."""

    def __init__(self, command, logs, env):
        self.command, self.logs, self.read = command, logs, [0] * len(logs)
        self.since = [0] * len(logs)  # stopped
        self.error = tempfile.TemporaryFile('w+')
        self.process = subprocess.Popen(
            command, env=dict(os.environ, **env), stdout=subprocess.DEVNULL,
            stderr=self.error, start_new_session=True,
            preexec_fn=die_with_parent)

    def signal(self, number, others=()):
        """But not to who has one of these logs."""
        for process in processes_of(self.process.pid):
            if any(names(process, log) for log in others):
                continue
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def rows(self):
        """What steps each log tells of since the last call."""
        found = []
        for i, log in enumerate(self.logs):
            text = b''
            if os.path.exists(log):
                with open(log, 'rb') as file:
                    file.seek(self.read[i])
                    text = file.read()
            text = text[:text.rfind(b'\n') + 1]
            self.read[i] += len(text)
            found.append([row for row in map(json.loads, text.splitlines())
                          if 'step_ms' in row])
        return found

    def check(self):
        if self.process.poll() is None:
            return
        self.error.seek(0)
        raise Failed(f"{' '.join(self.command)}: status "
                     f'{self.process.returncode}\n{self.error.read().strip()}')

    def begin(self, steps):
        """Lets it make a few, and returns what one takes, in seconds."""
        end, made = time.monotonic() + LONG, [[] for _ in self.logs]
        while min(map(len, made)) < steps:
            time.sleep(0.02)
            self.check()
            if time.monotonic() > end:
                raise Failed(f"{' '.join(self.command)}: no {steps} steps in "
                             f'{LONG} s')
            made = [before + rows for before, rows in zip(made, self.rows())]
        self.signal(signal.SIGSTOP)
        self.since = [time.monotonic()] * len(self.logs)
        return 1e-3 * statistics.median(row['step_ms'] for row in made[0])

    def run(self, seconds, only=None):
        """The steps of each log, or only of that, which end in these. One that
        began before does not count the stop, and 'stopped' is set in it."""
        runs = [i for i in range(len(self.logs)) if only in (None, i)]
        others = [log for i, log in enumerate(self.logs) if i not in runs]
        self.signal(signal.SIGCONT, others)
        begin = time.monotonic()
        time.sleep(seconds)
        self.check()
        self.signal(signal.SIGSTOP)
        end, rows = time.monotonic(), self.rows()
        for i in runs:
            stopped = 1e3 * (begin - self.since[i])
            self.since[i] = end
            for row in rows[i]:
                if row['step_ms'] > stopped:
                    row['step_ms'] -= stopped
                    row['stopped'] = True
        return [rows[i] for i in runs]

    def end(self):
        while list(processes_of(self.process.pid)):
            self.signal(signal.SIGKILL)
            time.sleep(0.01)
        self.process.wait()
        self.error.close()
