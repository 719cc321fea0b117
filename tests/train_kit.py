# SPDX-License-Identifier: MIT
"""Short trainings of several ranks, for tests that get the build folder."""
import array
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

from processes import ranks_of
from tap import expect

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, 'coll_train')
NET = """net small
input 1x28x28
conv 6 5x5 stride 2 pad 2
relu
maxpool 2x2
dense 40
relu
dropout 0.3
dense 10
softmax_loss
"""
STEPS = 24
FOLDER = tempfile.TemporaryDirectory(prefix='train_kit.')


def path(name):
    return os.path.join(FOLDER.name, name)


OPTIONS = ['--net', path('small.net'), '--data', 'synthetic:1490', '--lr',
           '0.01', '--global-batch', '32']


def started(how, nranks, options, settings, **more):
    with open(path('small.net'), 'w', encoding='utf-8') as file:
        file.write(NET)
    return how([os.path.join(BUILD, 'collrun'), '-n', str(nranks), TRAIN,
                *OPTIONS, *options],
               env={**os.environ, 'OPENBLAS_NUM_THREADS': '1',
                    'COLL_CALIBRATE': 'off', **settings}, text=True, **more)


def run(nranks, *options, **settings):
    return started(subprocess.run, nranks, options, settings,
                   capture_output=True, timeout=120)


def start(nranks, *options, **settings):
    return started(subprocess.Popen, nranks, options, settings,
                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def wait_for(file, job):
    """Until something is in it."""
    end = time.monotonic() + 60
    while not (os.path.exists(file) and os.path.getsize(file)) \
            and job.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def killed(victim, nranks, *options, **settings):
    """What is said if a rank is killed once there is a checkpoint."""
    job = start(nranks, '--steps', '1000000', *options, **settings)
    wait_for(options[options.index('--checkpoint') + 1], job)
    os.kill(ranks_of(job.pid)[victim], signal.SIGKILL)
    errors = job.communicate(timeout=60)[1]
    expect(job.returncode != 0 and 'killed by signal 9' in errors, errors)
    return errors


def refuses(cases, *options):
    """cases: of (more options, what is to be said of them)."""
    for words, said in cases:
        done = run(1, *options, *words)
        expect(done.returncode == 2 and said in done.stderr, words,
               done.stderr)


def train(name, nranks, *options, steps=STEPS, **settings):
    """The checkpoint's bytes; what was printed is in train.out."""
    done = run(nranks, '--checkpoint', path(name), '--steps', str(steps),
               *options, **settings)
    expect(done.returncode == 0, done.args, done.stdout, done.stderr)
    expect(not done.stderr, done.stderr)
    train.out = done.stdout
    with open(path(name), 'rb') as file:
        return file.read()


def weights(name):
    """All of a checkpoint, through the exported file."""
    subprocess.run([TRAIN, 'export', '--checkpoint', path(name),
                    '--safetensors', path(name + '.st')], check=True)
    with open(path(name + '.st'), 'rb') as file:
        data = file.read()
    size = struct.unpack('<Q', data[:8])[0]
    expect('__metadata__' in json.loads(data[8:8 + size]), 'no header')
    return array.array('f', data[8 + size:])


def distance(a, b):
    """|a - b| / |b|."""
    return (sum((u - v) ** 2 for u, v in zip(a, b))
            / sum(v * v for v in b)) ** 0.5
