#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with fewer bytes on the wire: usage wire_ranks.py BUILD_FOLDER.

Two ranks that must send messages train nearly what they do with f32, however
the gradients are cut; a run that was stopped and resumed ends with the bytes of
one that was not, what int8 and topk keep included.
"""
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect  # noqa: E402
from train_kit import STEPS, distance, path, weights  # noqa: E402

MESSAGES = {'COLL_TRANSPORT': 'ucx'}
PACKED = ['--momentum', '0.9', '--exchange', 'packed']


def train(name, *options, nranks=2, **more):
    always = ['--wire-always'] if '--wire' in options else []
    return train_kit.train(name, nranks, *PACKED, *options, *always, **more,
                           **MESSAGES)


@case
def test_bf16_does_not_depend_on_the_cut():
    whole = train('bf16', '--wire', 'bf16')
    for how in (['layers'], ['buckets', '--bucket', '4K']):
        expect(train('cut', '--wire', 'bf16', '--exchange', *how) == whole,
               how)


@case
def test_weights_are_near_those_of_f32():
    train('f32')
    wanted = weights('f32')
    for words, most in ((['bf16'], 2e-3), (['int8'], 2e-2),
                        (['topk', '--top', '100'], 1e-5),
                        (['topk', '--top', '30'], 0.1)):
        train('near', '--wire', *words)
        found = distance(weights('near'), wanted)
        print(f'# {words}: {found:.2g}', flush=True)
        expect(found < most, words, found)


@case
def test_a_resumed_run_ends_with_the_bytes_of_one():
    for words in (['int8'], ['int8', '--exchange', 'layers'],
                  ['topk', '--top', '2']):
        options = ['--wire', *words]
        whole = train('whole', *options)
        train('parts', *options, steps=11)
        expect(train('parts', *options, '--resume') == whole, words)


@case
def test_another_number_of_ranks_goes_on():
    train('two', '--wire', 'int8', steps=11)
    train('two', '--wire', 'int8', '--resume', nranks=4)
    train('two', '--resume', steps=STEPS + 2)


@case
def test_one_host_stays_with_f32_and_says_so():
    done = train_kit.run(2, '--steps', '2', '--wire', 'int8')
    expect(done.returncode == 0 and done.stderr.count('\n') == 1
           and 'all ranks are on one host' in done.stderr, done.stderr)


@case
def test_codes_that_take_longer_than_f32_are_left_out():
    # Pairs of all numbers and their places are twice the bytes. It is tried
    # out, and so may go wrong where others want the processors.
    words = ('--wire', 'topk', '--top', '100')
    for _ in range(6):
        done = train_kit.run(2, '--steps', str(STEPS), *PACKED, *words,
                             '--checkpoint', path('left'), **MESSAGES)
        expect(done.returncode == 0, done.stderr)
        if done.stderr:
            break
    expect(done.stderr.count('\n') == 1
           and 'gradients stay f32' in done.stderr, done.stderr)
    train('f32')
    expect(distance(weights('left'), weights('f32')) == 0, 'of f32')
    train('coded', '--wire', 'bf16')
    expect(distance(weights('coded'), weights('f32')) != 0, 'always')


@case
def test_wrong_options_are_refused():
    train_kit.refuses((
        (['--wire', 'int4'], 'did you mean int8?'),
        (['--wire-always'], 'valid with bf16, int8 and topk'),
        (['--wire', 'int8', '--top', '2'], 'valid is --wire topk'),
        (['--wire', 'topk', '--top', '0'], '--top'),
        (['--wire', 'bf16', '--strategy', 'sync-easgd1'],
         'valid with sync')))


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
