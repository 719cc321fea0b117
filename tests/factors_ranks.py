#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with dense layers' gradients as factors: usage factors_ranks.py BUILD.

Ranks that exchange factors end with the weights of ranks that sum gradients, up
to rounding; one rank with the same bits. They repeat and resume bit by bit, have
no such gradients in memory, and choose factors by themselves where a network is
slow, or the weights are many.
"""
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect  # noqa: E402
from train_kit import BUILD, TRAIN, distance, path, train, weights  # noqa: E402

ON, OFF = ['--factors', 'on'], ['--factors', 'off']
UCX = {'COLL_TRANSPORT': 'ucx'}
WIDE = 'net wide\ninput 1x28x28\ndense 12000\nrelu\ndense 10\nsoftmax_loss\n'
NONE, LAST, ALL = (range(a, b) for a, b in (  # gradients of it, bytes
    (0, 4097), (480040, 490000), (38000000, 39000000)))
OPTIMISERS = (['--momentum', '0.9', '--weight-decay', '0.01'],
              ['--optimizer', 'adam', '--lr', '1e-4', '--ema', '0.9'])


def near(nranks, *words, **settings):
    """The last steps of the data's one epoch have a batch in part, or none."""
    train('sums', nranks, *words, *OFF, steps=47)
    train('factors', nranks, *words, *ON, steps=47, **settings)
    found = distance(weights('factors'), weights('sums'))
    print(f'# {nranks} {words} {settings}: {found:.2g}', flush=True)
    expect(found < 1e-6, nranks, words, found)


@case
def test_one_rank_has_the_same_bits():
    for words in (*OPTIMISERS, ['--threads', '2', '--bind', 'none']):
        expect(train('sums', 1, *words, *OFF) == train('factors', 1, *words,
                                                       *ON), words)


@case
def test_ranks_have_the_same_up_to_rounding():
    for nranks in (2, 4):
        for words in OPTIMISERS:
            near(nranks, *words)
    near(2, '--threads', '2', '--bind', 'none')


@case
def test_each_exchange_has_factors():
    for how in ('packed', 'layers', 'buckets', 'priority', 'auto'):
        near(4, '--exchange', how, '--momentum', '0.9', **UCX)


@case
def test_late_ones_are_there_where_weights_are_looked_at():
    """A checkpoint, and another number of ranks that goes on from it."""
    words = ['--exchange', 'priority', '--bucket', '4K', '--momentum', '0.9']
    near(4, *words, '--checkpoint-every', '3', '--test-every', '7', **UCX)
    train('parts', 4, *words, *ON, '--checkpoint-every', '3', steps=20, **UCX)
    train('parts', 1, *words, *ON, '--resume', steps=47)
    found = distance(weights('parts'), weights('factors'))
    expect(found < 1e-5, found)


@case
def test_runs_repeat_and_resume_bit_by_bit():
    words = [*ON, '--deterministic', '--momentum', '0.9']
    for settings in ({}, UCX):
        whole = train('whole', 4, *words, **settings)
        expect(whole == train('again', 4, *words, **settings), 'again')
        train('parts', 4, *words, steps=11, **settings)
        expect(train('parts', 4, *words, '--resume', **settings) == whole,
               'resumed')


def gradients(out):
    line = re.search(r'^ *(?:\[0\] )?  gradients +([0-9]+)', out, re.MULTILINE)
    expect(line, out)
    return int(line[1])


@case
def test_factors_are_in_place_of_gradients():
    of = {}
    for words in (ON, OFF, []):
        train('memory', 2, *words, '--profile', steps=2)
        of[' '.join(words)] = gradients(train.out)
    print(f'# {of}', flush=True)
    expect(of['--factors on'] < of['--factors off'] / 10, of)
    expect(of[''] == of['--factors off'], 'few weights on one host', of)


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True,
                          text=True, timeout=120)
    expect(done.returncode == 0, command, done.stdout, done.stderr)
    return done.stdout


@case
def test_many_weights_have_factors_by_themselves():
    """All layers of this net, so that no gradients are left; or the first, where
    the last one's factors would be more numbers than its gradient."""
    with open(path('wide.net'), 'w', encoding='utf-8') as file:
        file.write(WIDE)
    for nranks, batch, words, has in (
            (1, 4, [], NONE), (1, 4, ['--deterministic'], NONE),
            (2, 4, [], NONE), (2, 4, ['--deterministic'], ALL),
            (2, 8, [], LAST), (2, 4, ['--exchange', 'packed'], ALL),
            (2, 4, ['--optimizer', 'lars'], ALL), (2, 32, [], ALL)):
        out = run(f'{BUILD}/collrun', '-n', nranks, TRAIN, '--net',
                  path('wide.net'), '--data', 'synthetic:64', '--batch', batch,
                  '--steps', '2', '--profile', *words)
        expect(gradients(out) in has, nranks, batch, words, gradients(out))


@case
def test_a_net_may_have_no_gradients_at_all():
    with open(path('dense.net'), 'w', encoding='utf-8') as file:
        file.write(WIDE.replace('12000', '40'))
    for how in (['packed'], ['layers'], ['priority', '--bucket', '4K']):
        near(4, '--net', path('dense.net'), '--exchange', *how, **UCX)


@case
def test_a_slow_network_has_factors_by_itself():
    """And waits for them: what else there is to exchange comes long before. By
    itself the last layer keeps its gradient, as it has few weights, whatever the
    ways to exchange that it tries."""
    lab = pathlib.Path(__file__).resolve().parent / 'netlab/netlab'
    check = subprocess.run([str(lab), '--hosts', '2', '--', 'true'],
                           capture_output=True, text=True, timeout=60)
    if check.returncode == 77:
        raise tap.Skip(check.stderr.strip())
    with open(path('few.net'), 'w', encoding='utf-8') as file:
        file.write('net few\ninput 1x28x28\nconv 2 3x3\nrelu\ndense 200\n'
                   'relu\ndense 10\nsoftmax_loss\n')

    def trained(name, *words):
        out = run(lab, '--hosts', '2', '--rate', '200Mbit', '--', TRAIN,
                  '--net', path('few.net'), '--data', 'synthetic:256',
                  '--batch', '32', '--steps', '60', '--epochs', '15',
                  '--profile', '--checkpoint', path(name), *words)
        found = distance(weights(name), weights('off'))
        print(f'# {name}: {gradients(out)} bytes, {found:.2g}', flush=True)
        expect(found < 1e-6, name, found)
        return gradients(out)

    sums = trained('off', *OFF)
    expect(4096 < trained('auto') < sums / 50)
    expect(trained('packed', '--exchange', 'packed', *ON) <= 4096)
    expect(trained('late', '--exchange', 'priority', '--bucket', '64K', *ON)
           <= 4096)


@case
def test_wrong_options_are_refused():
    train_kit.refuses((
        (['--clip-norm', '1'], 'found on with --clip-norm'),
        (['--accumulate', '2'], 'found on with --accumulate'),
        (['--optimizer', 'lars'], 'found on with --optimizer lars'),
        (['--wire', 'int8'], 'found on with --wire'),
        (['--shard-optimizer'], 'found on with --shard-optimizer'),
        (['--strategy', 'sync-easgd1'], 'valid with sync')), *ON)
    train_kit.refuses(((['--factors', 'of'], 'off'),))


@case
def test_a_net_without_a_last_dense_layer_is_told():
    with open(path('prelu.net'), 'w', encoding='utf-8') as file:
        file.write(WIDE.replace('12000', '40').replace(
            'dense 10', 'dense 10\nprelu'))
    done = train_kit.run(2, '--net', path('prelu.net'), '--steps', '1', *ON)
    expect(done.returncode == 0 and 'is not dense' in done.stderr + done.stdout,
           done.stderr)


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
