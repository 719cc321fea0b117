#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with several threads: usage training_threads.py BUILD_FOLDER
[WORD...]. With --deterministic any number of them ends with the same bytes.
"""
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect, slow_case  # noqa: E402
from train_kit import path  # noqa: E402

# All ways to convolve, and all layers with sums over images.
SMALL = """input 3x12x12
conv 32 5x5 pad 2
batchnorm
relu
conv 32 3x3 pad 1 groups 2
lrn 3
maxpool 2x2
conv 12 3x3 groups 4
scale
bias
prelu
dropout 0.3
dense 20
relu
dense 10
softmax_loss
"""
RESNET = """input 3x24x24
first: conv 16 3x3 pad 1 nobias
batchnorm
relu
conv 16 3x3 pad 1 nobias
left: batchnorm
add from left first
wide: relu
conv 32 3x3 stride 2 pad 1 nobias
batchnorm
relu
conv 32 3x3 pad 1 nobias
batchnorm
relu
conv 32 1x1 nobias
right: batchnorm
conv 32 1x1 stride 2 nobias from wide
short: batchnorm
add from right short
relu
avgpool global
dense 10
softmax_loss
"""
ALEXNET = """input 3x43x43
conv 32 11x11 stride 4
relu
lrn 5
maxpool 3x3 stride 2 ceil
conv 64 5x5 pad 2 groups 2
relu
lrn 5
conv 48 3x3 pad 1
relu
conv 40 3x3 pad 1 groups 2
relu
maxpool 2x2
dense 64
relu
dropout 0.5
dense 10
softmax_loss
"""


def train(shape, nthreads, nranks, *options):
    """The checkpoint, and what an evaluation saw. 13 images a rank can be
    shared out to nobody; the last batch of an epoch has 6."""
    done = train_kit.run(
        nranks, '--checkpoint', path('saved'), '--steps', '4',
        '--deterministic', '--threads', str(nthreads), '--bind', 'none',
        '--net', path('threads.net'), '--data',
        f'synthetic:{32 * nranks}x{shape}', '--batch', '13',
        '--global-batch', str(13 * nranks), *options)
    expect(done.returncode == 0, done.args, done.stderr)
    with open(path('saved'), 'rb') as file:
        return file.read(), done.stdout.partition('images/s')[0]


def expect_same(net, shape, *options, nranks=1, numbers=(2, 3)):
    with open(path('threads.net'), 'w', encoding='ascii') as file:
        file.write(net)
    one = train(shape, 1, nranks, *options)
    for nthreads in numbers:
        expect(train(shape, nthreads, nranks, *options) == one,
               f'{nthreads} threads differ from 1', *options)


@case
def test_any_number_of_threads_gives_the_same_bytes():
    expect_same(SMALL, '3x12x12', '--momentum', '0.9')


@slow_case
def test_all_ways_to_convolve_do():
    for how in ('direct', 'gemm', 'winograd', 'strassen'):
        expect_same(SMALL, '3x12x12', '--kernel', how, numbers=(2, 3, 4, 9))
    for how in ('winograd', 'strassen'):
        expect_same(RESNET, '3x24x24', '--kernel', how, numbers=(2, 3, 4))
    expect_same(SMALL, '3x12x12', '--precision', 'bf16')


@slow_case
def test_residual_nets_do():
    for options in (['--momentum', '0.9', '--clip-norm', '1'],
                    ['--ema', '0.9', '--accumulate', '2'],
                    ['--optimizer', 'lars']):
        expect_same(RESNET, '3x24x24', *options, numbers=(2, 3, 4))


@slow_case
def test_nets_with_groups_do():
    for options in (['--momentum', '0.9'], ['--optimizer', 'adam'],
                    ['--precision', 'bf16']):
        expect_same(ALEXNET, '3x43x43', *options, numbers=(2, 3, 4))


@slow_case
def test_several_ranks_do():
    for options in ([], ['--strategy', 'sync-easgd3'], ['--shard-optimizer']):
        expect_same(SMALL, '3x12x12', *options, nranks=2)


@case
def test_what_is_timed_is_refused():
    train_kit.refuses([(['--kernel', 'measured'],
                        '--deterministic: found --kernel measured')],
                      '--deterministic')


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
