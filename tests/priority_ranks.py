#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training whose gradients arrive during the next forward: usage
priority_ranks.py BUILD_FOLDER [WORD...].

Weights move layer by layer, and yet all ways to exchange gradients end with the
same bytes where sums have the same bits; so does a run that was killed and
resumed. Ranks send messages here, as on several hosts.
"""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, cases, expect, of_times  # noqa: E402
from train_kit import path  # noqa: E402

SETTINGS = {'COLL_TRANSPORT': 'ucx', 'COLL_DETERMINISM': 'full'}
WAYS = [['priority'], ['priority', '--bucket', '4K'], ['auto'],
        *cases([['priority', '--bucket', '64'], ['layers'], ['buckets'],
                ['buckets', '--bucket', '4K']], [])]
PARAMETERS = 3  # layers of the kit's net that have some


def train(name, how, *options, nranks=2, steps=100, **more):
    return train_kit.train(name, nranks, '--exchange', *how, '--factors', 'off',
                           *options, steps=steps, **SETTINGS, **more)


def tests():
    """The losses of the last run's evaluations."""
    with open(path('log'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    return [line['test_loss'] for line in lines if 'test_loss' in line]


def expect_same(*options, ways=tuple(WAYS), **more):
    """In checkpoints, and in all that was seen on the way."""
    options = [*options, '--log', path('log')]
    whole = train('packed', ['packed'], *options, **more)
    seen = tests()
    expect(seen, 'no evaluations')
    for how in ways:
        expect(train('other', how, *options, **more) == whole, how, options)
        expect(tests() == seen, how, options)


@case
def test_all_exchanges_end_with_the_same_bytes():
    for nranks in (2, 4):
        expect_same('--momentum', '0.9', nranks=nranks)


@case
def test_what_looks_at_all_weights_sees_all_moved():
    """Epochs of four steps, of which the last leaves a rank without images, and
    checkpoints between."""
    expect_same('--data', 'synthetic:97', '--ema', '0.9', '--accumulate', '2',
                '--checkpoint-every', '3', ways=WAYS[:2], steps=50)


@case
def test_optimisers_that_measure_layers_move_them_one_by_one():
    for words in cases((['lars'], ['lamb'], ['adam', '--threads', '2',
                                             '--bind', 'none']), (['lamb'],)):
        expect_same('--optimizer', *words, ways=WAYS[:2])


@case
def test_weights_move_under_the_forward():
    """Where a trace has them: once a step, or before each layer that has any."""
    for how, times in ((['packed'], 1), (['priority', '--bucket', '4K'],
                                         PARAMETERS)):
        train('trace', how, '--trace', path('trace.json'), steps=6)
        with open(path('trace.0.json'), encoding='utf-8') as file:
            events = json.load(file)['traceEvents']
        steps = [e for e in events if e.get('cat') == 'step']
        expect(steps, events[:5])
        last = max(steps, key=lambda e: e['ts'])  # nothing is left behind it
        for step in steps:
            if step is last:
                continue
            inside = [e for e in events if e['name'] == 'update'
                      and 0 <= e['ts'] - step['ts'] < step['dur']]
            expect(len(inside) == times, how, step, inside)


@case
@of_times
def test_the_parts_sum_to_the_wall_time():
    train('parts', ['priority', '--bucket', '4K'], '--log', path('log'),
          steps=60)
    with open(path('log'), encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    for line in lines[:-1]:
        parts = line['parts_ms']
        expect(abs(sum(parts.values()) - line['step_ms'])
               < 0.001 * line['step_ms'], line)
        expect(parts['outside'] > 0 and parts['inside'] == 0, line)
    parts = lines[-1]['parts_s']
    expect(parts['rest'] < 0.03 * sum(parts.values()), parts)


@case
def test_a_killed_run_is_resumed_bit_for_bit():
    file, how = path('killed'), ['--exchange', 'priority']
    errors = train_kit.killed(-1, 3, '--checkpoint', file,
                              '--checkpoint-every', '7', '--global-batch', '30',
                              *how, **SETTINGS)
    expect('coll_train: rank ' in errors, errors)  # those that were left
    options = ['--global-batch', '30', '--checkpoint-every', '7']
    resumed = train('killed', ['priority'], '--resume', *options, nranks=3,
                    steps=500)
    whole = train('whole', ['packed'], *options, nranks=3, steps=500)
    expect(resumed == whole)


@case
def test_a_signal_ends_a_step_that_is_late():
    file, log = path('stopped'), path('stopped.log')
    job = train_kit.start(2, '--checkpoint', file, '--exchange', 'priority',
                          '--bucket', '4K', '--steps', '1000000', '--log', log,
                          **SETTINGS)
    train_kit.wait_for(log, job)
    job.send_signal(signal.SIGTERM)
    errors = job.communicate(timeout=60)[1]
    words = errors.split()
    expect(job.returncode != 0 and 'stopped by signal 15' in errors, errors)
    steps = int(words[words.index('after') + 2])
    with open(file, 'rb') as kept:
        stopped = kept.read()
    train('whole', ['packed'], steps=steps)
    expect(train_kit.weights('stopped') == train_kit.weights('whole'),
           len(stopped), steps)


@case
def test_a_loss_that_is_not_finite_ends_all_ranks():
    done = train_kit.run(3, '--global-batch', '30', '--lr', '1e6',
                         '--weight-decay', '1e6', '--steps', '50',
                         '--exchange', 'priority', '--bucket', '4K', **SETTINGS)
    expect(done.returncode == 1 and 'the loss is' in done.stderr,
           done.returncode, done.stderr)


@case
def test_wrong_options_are_refused():
    train_kit.refuses((
        (['--clip-norm', '1'], 'valid are packed, layers and buckets'),
        (['--wire', 'bf16'], 'valid are packed, layers and buckets'),
        (['--shard-optimizer'], 'valid is packed'),
        (['--deterministic'], 'without --bucket'),
        (['--strategy', 'sync-easgd1'], 'valid with sync')),
        '--exchange', 'priority')


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
