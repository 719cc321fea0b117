# SPDX-License-Identifier: MIT
"""coll_train eval --predict: usage predict_test.py BUILD_FOLDER [WORD ...]."""
import csv
import os
import re
import subprocess
import sys
from math import log

from tap import case, chosen, expect, CASES, run as run_cases
from train_kit import BUILD, NET, TRAIN, path, run, train

COUNT = 123
TWO = NET.replace('dense 10', 'dense 2')


def trained():
    if not os.path.exists(path('net')):
        train('net', 1, steps=8)
    return path('net')


def evaluate(nranks, *options, checkpoint=None):
    return subprocess.run(
        [os.path.join(BUILD, 'collrun'), '-n', str(nranks), TRAIN, 'eval',
         '--checkpoint', checkpoint or trained(), '--data',
         f'synthetic:{COUNT}', *options],
        env={**os.environ, 'OPENBLAS_NUM_THREADS': '1',
             'COLL_CALIBRATE': 'off'},
        capture_output=True, text=True, timeout=60)


def predict(nranks, file):
    done = evaluate(nranks, '--predict', file, '--batch', '7')
    expect(done.returncode == 0 and not done.stderr, done.stderr)
    with open(file, encoding='ascii', newline='') as stream:
        return done.stdout, list(csv.reader(stream))


@case
def probabilities_give_the_printed_accuracy_and_loss():
    out, rows = predict(1, path('one.csv'))
    expect(rows[0] == ['image', 'label', *map(str, range(10))], rows[0])
    images = [([int(w) for w in row[:2]], [float(w) for w in row[2:]])
              for row in rows[1:]]
    n = len(images)
    expect([i for (i, _), _ in images] == list(range((COUNT + 4) // 5)), n)
    expect(all(abs(sum(p) - 1) < 1e-4 for _, p in images), 'not 1 in all')
    right = sum(p.index(max(p)) == label for (_, label), p in images) / n
    loss = -sum(log(p[label]) for (_, label), p in images) / n
    found = re.search(r'accuracy (\S+)  loss (\S+)', out)
    expect(f'{right:.4f}' == found[1] and f'{loss:.4g}' == found[2], out,
           right, loss)


@case
def any_number_of_ranks_writes_the_same_file():
    _, one = predict(1, path('one.csv'))
    for nranks in 3, 4, 30:  # of 30 some have no image
        expect(predict(nranks, path('more.csv'))[1] == one, nranks)


@case
def a_place_that_cannot_be_written_is_said_first():
    for file, why in (('/no/such/folder/p.csv', 'cannot write'),
                      (path(''), 'cannot write: Is a directory')):
        done = evaluate(2, '--predict', file)
        expect(done.returncode == 2 and file in done.stderr
               and why in done.stderr and 'accuracy' not in done.stdout,
               done.returncode, done.stderr)


def put_idx(folder, part, side, labels):
    os.makedirs(folder, exist_ok=True)
    for name, dims, values in (
            ('images-idx3', (len(labels), side, side),
             bytes(len(labels) * side * side)),
            ('labels-idx1', (len(labels),), bytes(labels))):
        head = bytes([0, 0, 8, len(dims)])
        with open(f'{folder}/{part}-{name}-ubyte', 'wb') as file:
            file.write(head + b''.join(d.to_bytes(4, 'big') for d in dims)
                       + values)


def learn(nranks, train_labels, test_labels, test_side=28):
    put_idx(path('idx'), 'train', 28, train_labels)
    put_idx(path('idx'), 't10k', test_side, test_labels)
    with open(path('two.net'), 'w', encoding='ascii') as file:
        file.write(TWO)
    return run(nranks, '--net', path('two.net'), '--data',
               'mnist:' + path('idx'), '--steps', '2', '--global-batch', '4')


@case
def a_net_has_as_many_classes_as_the_labels_need():
    done = learn(2, [0, 1] * 5, [1, 0])
    expect(done.returncode == 0, done.stderr)
    for args, why in ((([0, 1, 2] * 5, [0, 1]), 'knows 2 classes'),
                      (([0, 1] * 5, [0, 1, 2]), 'knows 2 classes'),
                      (([0, 1] * 5, [0, 1], 30), '30x30')):
        done = learn(2, *args)
        expect(done.returncode == 2 and why in done.stderr, why,
               done.returncode, done.stderr)


if __name__ == '__main__':
    sys.exit(run_cases(chosen(CASES)))
