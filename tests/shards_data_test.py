#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real pictures: usage shards_data_test.py BUILD_FOLDER.

TESTS_IMAGENET names a folder with archives of ImageNet's pictures, of mixed
sizes; TESTS_CIFAR10_SHARDS one with archives of CIFAR-10's, 50000 and 10000.
Skips what is not there.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip, case, expect  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, 'coll_train')
TEMP = tempfile.TemporaryDirectory(prefix='shards_data.')
NET = """input 3x32x32
conv 20 5x5
maxpool 2x2
conv 50 5x5
maxpool 2x2
dense 200
relu
dense 10
softmax_loss
"""


def where(name):
    if name not in os.environ:
        raise Skip(f'{name} names no folder of archives')
    return os.environ[name]


def train(nranks, *words):
    log = os.path.join(TEMP.name, 'log')
    done = subprocess.run(
        [os.path.join(BUILD, 'collrun'), '-n', str(nranks), TRAIN, '--log', log,
         *words],
        env={**os.environ, 'OPENBLAS_NUM_THREADS': '1'},
        capture_output=True, text=True, timeout=240)
    expect(done.returncode == 0, done.stdout, done.stderr)
    with open(log, encoding='utf-8') as file:
        return [json.loads(line) for line in file]


@case
def resnet_takes_steps_on_imagenets_pictures():
    log = train(2, '--net', 'resnet18', '--data',
                'shards:' + where('TESTS_IMAGENET'), '--augment', '--batch',
                '4', '--steps', '4', '--lr', '0.01', '--prefetch', 'on')
    expect(len(log) == 5 and log[-1]['final'], log)


@case
def every_one_of_imagenets_pictures_is_read():
    net = os.path.join(TEMP.name, 'tiny.net')
    with open(net, 'w', encoding='utf-8') as file:
        file.write('input 3x64x64\navgpool 8x8\ndense 1000\nsoftmax_loss\n')
    log = train(1, '--net', net, '--data', 'shards:' + where('TESTS_IMAGENET'),
                '--epochs', '3', '--batch', '16', '--lr', '0.01')
    expect(log[-2]['epoch'] == 3, log[-2])


@case
def cifar10_of_jpegs_is_learnt():
    net = os.path.join(TEMP.name, 'lenet32.net')
    with open(net, 'w', encoding='utf-8') as file:
        file.write(NET)
    log = train(2, '--net', net, '--data',
                'shards:' + where('TESTS_CIFAR10_SHARDS'), '--shuffle',
                'stripes', '--batch', '50', '--epochs', '1', '--lr', '0.02',
                '--momentum', '0.9')
    expect(log[-2]['step'] == 500, log[-2])
    expect(log[-1]['accuracy'] > 0.45 and log[-1]['loss'] < 1.6, log[-1])


sys.exit(tap.run(tap.chosen(tap.CASES)))
