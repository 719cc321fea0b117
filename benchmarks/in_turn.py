# SPDX-License-Identifier: MIT
"""Jobs side by side of which one runs while the others are stopped.

A machine that is slower now than a second ago is slower for each of them, so that what
they take compares better than what runs of many seconds one after another take.
"""
import json
import os
import signal
import subprocess
import tempfile
import time

from compare_torch import Failed

LONG = 300  # seconds within which a job has begun to make steps


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


class Job:
    """Stopped, but in run(). Its ranks write a line of JSON to a log for each step."""

    def __init__(self, command, logs, env, output=None):
        """output: where standard output goes, if that is a log."""
        self.command, self.logs, self.read = command, logs, [0] * len(logs)
        self.error = tempfile.TemporaryFile('w+')
        with open(output or os.devnull, 'w', encoding='utf-8') as out:
            self.process = subprocess.Popen(
                command, env=dict(os.environ, **env), stdout=out,
                stderr=self.error, start_new_session=True)

    def signal(self, number):
        for process in processes_of(self.process.pid):
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

    def failed(self):
        if self.process.poll() is None:
            return
        self.error.seek(0)
        raise Failed(f"{' '.join(self.command)}: status "
                     f'{self.process.returncode}\n{self.error.read().strip()}')

    def begin(self, steps):
        """Lets it make a few, and returns what the last one took, in seconds."""
        end, made = time.monotonic() + LONG, [[] for _ in self.logs]
        while min(map(len, made)) < steps:
            time.sleep(0.02)
            self.failed()
            if time.monotonic() > end:
                raise Failed(f"{' '.join(self.command)}: no {steps} steps in "
                             f'{LONG} s')
            made = [all_rows + rows
                    for all_rows, rows in zip(made, self.rows())]
        self.signal(signal.SIGSTOP)
        return 1e-3 * made[0][-1]['step_ms']

    def run(self, seconds):
        """The steps that lie in these, of each log as many."""
        self.rows()
        self.signal(signal.SIGCONT)
        time.sleep(seconds)
        self.failed()
        self.signal(signal.SIGSTOP)
        # the first was begun before
        rows = [made[1:] for made in self.rows()]
        least = min(map(len, rows))
        return [made[:least] for made in rows]

    def end(self):
        while list(processes_of(self.process.pid)):
            self.signal(signal.SIGKILL)
        self.process.wait()
        self.error.close()
