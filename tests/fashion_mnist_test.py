#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LeNet on real images: usage fashion_mnist_test.py BUILD. Speaks TAP.

Whatever the threads of servers do in which order, some epochs end above an
accuracy. Needs Debian's dataset-fashion-mnist.
"""
import json
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402
import subprocess  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
DATA = '/usr/share/datasets/fashion-mnist'
MOMENTUM = ['--momentum', '0.9']
# With a server, whose changes come from four workers.
SERVED = {
    'async-sgd': ('--lr', '0.02'), 'hogwild-sgd': ('--lr', '0.02'),
    'async-msgd': ('--lr', '0.002', *MOMENTUM),
}


def train(nranks, epochs, *options):
    """The accuracy of all test images, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        done = subprocess.run(
            [f'{BUILD}/collrun', '-n', str(nranks), f'{BUILD}/coll_train',
             '--net', 'lenet', '--data', 'fashion-mnist', '--epochs',
             str(epochs), '--log', log, *options],
            capture_output=True, text=True, timeout=240, check=False)
        expect(done.returncode == 0, done.stderr)
        with open(log, encoding='utf-8') as file:
            final = [json.loads(line) for line in file][-1]
    print(f'# {nranks} ranks, {" ".join(options)}: {final["accuracy"]}',
          flush=True)
    return final['accuracy'], done.stdout


@case
def test_one_rank_and_four_reach_88_percent_in_two_epochs():
    for nranks, batch in (1, 128), (4, 32):
        accuracy, _ = train(nranks, 2, '--batch', str(batch), '--lr', '0.02',
                            *MOMENTUM)
        expect(accuracy >= 0.88, nranks, accuracy)


@case
def test_workers_of_a_server_reach_75_percent_in_an_epoch():
    for strategy, options in SERVED.items():
        accuracy, out = train(5, 1, '--batch', '64', '--strategy', strategy,
                              *options)
        expect(accuracy >= 0.75, strategy, accuracy)
        expect(re.search(r'^staleness +[0-9]', out, re.MULTILINE), out)


if __name__ == '__main__':
    if not os.path.isdir(DATA):
        print(f'1..0 # SKIP {DATA}: no such folder')
        sys.exit(0)
    sys.exit(tap.run(tap.CASES))
