#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trainings on pictures in archives and folders: usage shards_ranks.py
BUILD_FOLDER."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from shards_kit import pairs, picture, write_folder, write_tar  # noqa: E402
from tap import case, cases, expect, slow_case  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, 'coll_train')
CLASSES, IMAGES, TESTS = 4, 60, 16
TEMP = tempfile.TemporaryDirectory(prefix='shards_ranks.')
ROOT = pathlib.Path(TEMP.name)
SHARDS, FOLDER, NET = ROOT / 'shards', ROOT / 'folder', ROOT / 'small.net'


def make():
    """The same pictures in the same order: by class, then by number."""
    NET.write_text('input 3x12x12\nconv 8 3x3 stride 2\nrelu\ndense 4\n'
                   'softmax_loss\n')
    images = sorted((i % CLASSES, i) for i in range(IMAGES))
    images = [(f'{i:04d}', label, picture(i, CLASSES)) for label, i in images]
    tests = [(f'{i:04d}', i % CLASSES, picture(i, CLASSES))
             for i in range(IMAGES, IMAGES + TESTS)]
    SHARDS.mkdir()
    for n in range(3):  # the middle one packed; 20 images in each
        end, mode = ('.tar.gz', 'w:gz') if n == 1 else ('.tar', 'w')
        write_tar(SHARDS / f'train-{n}{end}',
                  pairs(images[20 * n:20 * n + 20]), mode)
    write_tar(SHARDS / 'val-0.tar', pairs(tests))
    write_folder(FOLDER / 'train', images)
    write_folder(FOLDER / 'test', tests)


def run(nranks, *words):
    return subprocess.run(
        [os.path.join(BUILD, 'collrun'), '-n', str(nranks), TRAIN,
         *map(str, words)],
        env={**os.environ, 'OPENBLAS_NUM_THREADS': '1',
             'COLL_CALIBRATE': 'off'},
        capture_output=True, text=True, timeout=60)


def train(nranks, data, *words):
    return run(nranks, '--net', NET, '--data', data, '--global-batch', '12',
               '--epochs', '2', '--lr', '0.01', '--momentum', '0.9', *words)


def weights(data, nranks, *words):
    """What training makes of the net; what it prints is in weights.out."""
    checkpoint, file = ROOT / 'a.ckpt', ROOT / 'a.safetensors'
    done = train(nranks, data, '--checkpoint', checkpoint, *words)
    expect(done.returncode == 0 and not done.stderr, done.stderr)
    weights.out = done.stdout
    subprocess.run([TRAIN, 'export', '--checkpoint', checkpoint,
                    '--safetensors', file], check=True)
    return file.read_bytes()


@case
def archives_and_folders_train_alike():
    words = '--augment', '--epochs', '12'
    known = weights(f'folder:{FOLDER}', 2, *words)
    expect(weights(f'shards:{SHARDS}', 2, *words, '--prefetch', 'on')
           == known, 'other bits')
    score = float(weights.out.split()[2])
    expect(score > 0.8, weights.out)
    done = run(2, 'eval', '--checkpoint', ROOT / 'a.ckpt', '--data',
               f'folder:{FOLDER}')
    expect(f'test accuracy {score:.4f}' in done.stdout, done.stdout,
           done.stderr)


@slow_case
def stripes_are_another_order_that_repeats():
    data = f'shards:{SHARDS}'
    first = weights(data, 2, '--shuffle', 'stripes')
    expect(weights(data, 2, '--shuffle', 'stripes', '--prefetch', 'on')
           == first, 'other bits')
    expect(weights(data, 2) != first, 'the order is that of --shuffle all')


@slow_case
def stripes_are_refused_where_they_mean_nothing():
    checkpoint = ROOT / 'b.ckpt'
    done = train(1, f'folder:{FOLDER}', '--shuffle', 'stripes')
    expect(done.returncode == 2 and 'valid is shards' in done.stderr,
           done.stderr)
    done = train(2, f'shards:{SHARDS}', '--shuffle', 'stripes', '--strategy',
                 'async-sgd', '--lr', '0.001', '--momentum', '0')
    expect(done.returncode == 2 and 'valid are all' in done.stderr, done.stderr)
    stripes = '--shuffle', 'stripes', '--checkpoint', checkpoint
    done = train(2, f'shards:{SHARDS}', *stripes, '--steps', '3')
    expect(done.returncode == 0, done.stderr)
    for nranks, words, said in ((1, stripes, 'trained by 2 ranks'),
                                (2, stripes[2:], 'shuffle stripes')):
        done = train(nranks, f'shards:{SHARDS}', *words, '--resume')
        expect(done.returncode == 2 and said in done.stderr, done.stderr)
    done = train(2, f'shards:{SHARDS}', *stripes, '--resume')
    expect(done.returncode == 0, done.stderr)


def damaged(number):
    """An archive whose picture of that number has lost its second half, but
    for what says how long it is."""
    images = [(f'{i:04d}', i % CLASSES, picture(i, CLASSES, 60, 60))
              for i in range(8)]
    key, label, data = images[number]
    images[number] = (key, label, data[:len(data) // 2])
    return images


@case
def a_damaged_picture_ends_the_job():
    path = ROOT / 'damaged.tar'
    write_tar(path, pairs(damaged(5)))
    for prefetch in cases(('on', 'off'), ('on',)):
        done = train(2, f'shards:{path}', '--prefetch', prefetch)
        expect(done.returncode == 1, done.returncode, done.stderr)
        for rank in 0, 1:
            expect(f'rank {rank}, step' in done.stderr, done.stderr)
        lines = [x for x in done.stderr.splitlines()
                 if x.startswith('coll_train')]
        expect(len(lines) == 2 and all(f'{path}: 0005.png: found the end' in x
                                       for x in lines), done.stderr)


@slow_case
def a_damaged_test_picture_ends_the_job():
    folder = ROOT / 'damaged'
    write_folder(folder / 'train', damaged(0)[1:])
    write_folder(folder / 'test', damaged(6))
    said = f'{folder}/test/002/0006.png: found the end'
    done = train(2, f'folder:{folder}')
    expect(done.returncode == 1 and done.stderr.count(said) >= 2,
           done.returncode, done.stderr)
    done = run(2, 'eval', '--checkpoint', ROOT / 'a.ckpt', '--data',
               f'folder:{folder}')
    expect(done.returncode == 1 and done.stderr.count(said) >= 2,
           done.returncode, done.stderr)


@case
def training_needs_no_test_images():
    archive = f'shards:{SHARDS}/train-0.tar'
    log = ROOT / 'log'
    done = train(1, archive, '--log', log)
    expect(done.returncode == 0 and not done.stderr, done.stderr)
    expect(done.stdout.startswith('no test images  images/s '), done.stdout)
    expect('"final": true, "images_per_s"' in log.read_text(), log.read_text())
    done = run(1, 'eval', '--checkpoint', ROOT / 'a.ckpt', '--data', archive)
    expect(done.returncode == 2 and 'has no test images' in done.stderr,
           done.stderr)


@slow_case
def the_net_says_what_it_takes():
    NET.write_text('input 2x12x12\ndense 4\nsoftmax_loss\n')
    done = train(1, f'shards:{SHARDS}')
    expect(done.returncode == 2 and '1 or 3 channels' in done.stderr,
           done.stderr)
    NET.write_text('input 1x20x9\nconv 4 3x3\ndense 4\nsoftmax_loss\n')
    done = train(1, f'shards:{SHARDS}')
    expect(done.returncode == 0, done.stderr)
    NET.write_text('input 3x12x12\ndense 3\nsoftmax_loss\n')
    done = train(1, f'shards:{SHARDS}')
    expect(done.returncode == 2 and 'shards has 4' in done.stderr, done.stderr)


make()
sys.exit(tap.run(tap.chosen(tap.CASES)))
