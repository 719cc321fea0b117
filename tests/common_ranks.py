#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training whose near ranks have one copy of the weights: usage
common_ranks.py BUILD.

Each moves a part of them, and all end with the very checkpoint of ranks that
have copies, which those have whose weights move while gradients arrive.
"""
import json
import re
import statistics
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect, of_times  # noqa: E402
from train_kit import distance, path, weights  # noqa: E402

train_kit.NET = """net large
input 1x28x28
conv 6 5x5 stride 2 pad 2
relu
dense 900
relu
dense 10
softmax_loss
"""
COPIES = ['--exchange', 'priority']
IN_ORDER = {'COLL_DETERMINISM': 'full'}


def once_for():
    """How many ranks have one copy, in the last run."""
    found = re.search(r'optimiser: once for ([0-9]+) ranks', train_kit.train.out)
    return int(found[1]) if found else 1


def train(name, nranks, *options, **more):
    return train_kit.train(name, nranks, '--profile', *options,
                           **{**IN_ORDER, **more})


def expect_same(nranks, *words, copies=tuple(COPIES)):
    words = ['--global-batch', '24', *words]
    found = train('once', nranks, *words)
    expect(once_for() == nranks, words, train_kit.train.out)
    copied = train('copied', nranks, *copies, *words)
    expect(once_for() == 1, words, train_kit.train.out)
    expect(found == copied, nranks, words)


@case
def test_the_same_bytes_as_with_copies():
    for factors in ('on', 'off'):
        expect_same(2, '--momentum', '0.9', '--factors', factors)
    expect_same(3, '--optimizer', 'adam', '--ema', '0.9')
    expect_same(4, '--optimizer', 'adamw', '--threads', '2', '--bind', 'none')


@case
def test_the_norm_is_that_of_all():
    """Ranks that share out their parts sum squares in another order."""
    words = ['--clip-norm', '0.1', '--global-batch', '24']
    train('once', 3, *words)
    expect(once_for() == 3, train_kit.train.out)
    train('parts', 3, '--shard-optimizer', *words)
    expect(once_for() == 1, train_kit.train.out)
    found = distance(weights('once'), weights('parts'))
    expect(found < 1e-6, found)


@case
def test_who_needs_a_copy_has_one():
    for words in (['--optimizer', 'lars'], ['--strategy', 'sync-easgd3'],
                  ['--shard-optimizer']):
        train('own', 2, *words)
        expect(once_for() == 1, words, train_kit.train.out)
    train('own', 2, '--exchange', 'packed', COLL_TRANSPORT='ucx')
    expect(once_for() == 1, train_kit.train.out)


@case
def test_a_checkpoint_serves_any_number_of_ranks():
    words = ['--optimizer', 'adam', '--ema', '0.5', '--factors', 'off']
    whole = train('whole', 2, *words)
    train('part', 2, *words, steps=11)
    expect(train('part', 2, *words, '--resume') == whole, 'at once')
    train('part', 2, *COPIES, *words, steps=11)
    expect(train('part', 2, *words, '--resume') == whole, 'from copies')
    train('part', 1, *words, steps=11)
    train('part', 4, *words, '--resume')
    expect(once_for() == 4, train_kit.train.out)
    found = distance(weights('part'), weights('whole'))
    expect(found < 1e-5, found)


SLOW = 'conv 32 5x5 pad 2\nrelu\nconv 32 5x5 pad 2\nrelu\nmaxpool 2x2'


def update_ms(late):
    """Of a step of rank 0, if that rank comes later: by less than it goes
    backward through layers before those that have factors."""
    log = path(f'late{late}.log')
    train(f'late{late}', 2, '--factors', 'on', '--delay', f'{late}:6', '--log',
          log)
    with open(log, encoding='utf-8') as file:
        rows = [json.loads(line) for line in file]
    return statistics.median(row['parts_ms']['update'] for row in rows[:-1])


@case
@of_times
def test_who_waits_moves_what_has_factors():
    """Of both ranks; nothing is left to who comes last."""
    net = train_kit.NET
    train_kit.NET = (net.replace('conv 6 5x5 stride 2 pad 2', SLOW)
                     .replace('dense 900', 'dense 300'))
    all_of_it, nothing = update_ms(1), update_ms(0)
    train_kit.NET = net
    print(f'# {all_of_it:.2f} and {nothing:.2f} ms', flush=True)
    expect(all_of_it > 2 * nothing, all_of_it, nothing)


@case
def test_a_killed_run_is_resumed_bit_for_bit():
    words = ['--global-batch', '24', '--checkpoint-every', '5']
    whole = train('whole', 3, *words, steps=100)
    for victim in (0, 2):
        name = f'killed{victim}'
        train_kit.killed(victim, 3, '--checkpoint', path(name), *words,
                         **IN_ORDER)
        found = train(name, 3, '--resume', *words, steps=100)
        expect(found == whole, victim)


@case
def test_a_loss_that_is_not_finite_ends_all_ranks():
    done = train_kit.run(3, '--global-batch', '30', '--lr', '1e6',
                         '--weight-decay', '1e6', '--steps', '50')
    expect(done.returncode == 1 and 'the loss is' in done.stderr,
           done.returncode, done.stderr)


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
