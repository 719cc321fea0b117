#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with the optimiser's state shared out: usage shard_ranks.py BUILD.

Ranks that each move their part of the weights write the very checkpoint of
ranks that move all, but for optimisers that measure tensors, which do so to
rounding; each has its part of the memory.
"""
import re
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
import train_kit  # noqa: E402
from tap import case, expect  # noqa: E402
from train_kit import STEPS, distance, train, weights  # noqa: E402

SHARD = '--shard-optimizer'
IN_ORDER = {'COLL_TRANSPORT': 'ucx', 'COLL_DETERMINISM': 'full'}


@case
def test_the_same_bytes_on_one_host():
    for nranks, words in ((2, ['--momentum', '0.9']),
                          (3, ['--optimizer', 'adam', '--ema', '0.9']),
                          (4, ['--optimizer', 'adamw', '--threads', '2',
                               '--bind', 'none'])):
        words = ['--global-batch', '36', *words]
        expect(train('all', nranks, *words)
               == train('part', nranks, SHARD, *words), nranks, words)


@case
def test_the_same_bytes_by_messages_in_rank_order():
    for nranks in (2, 4):
        words = ['--momentum', '0.9', '--exchange', 'packed']
        expect(train('all', nranks, *words, **IN_ORDER)
               == train('part', nranks, SHARD, *words, **IN_ORDER), nranks)


@case
def test_norms_are_those_of_all_ranks():
    for words in (['--optimizer', 'lars', '--lr', '1'],
                  ['--optimizer', 'lamb'], ['--clip-norm', '0.1']):
        train('all', 4, *words)
        train('part', 4, SHARD, *words)
        found = distance(weights('part'), weights('all'))
        print(f'# {words}: {found:.2g}', flush=True)
        expect(found < 1e-6, words, found)


@case
def test_a_checkpoint_serves_any_number_of_ranks():
    words = ['--optimizer', 'adam', '--ema', '0.5']
    whole = train('whole', 2, SHARD, *words)
    train('parts', 2, SHARD, *words, steps=11)
    expect(train('parts', 2, SHARD, *words, '--resume') == whole, 'shard')
    train('parts', 2, *words, steps=11)
    expect(train('parts', 2, SHARD, *words, '--resume') == whole, 'from whole')
    train('parts', 4, SHARD, *words, steps=11)
    train('parts', 1, *words, '--resume')
    found = distance(weights('parts'), weights('whole'))
    expect(found < 1e-5, found)


def optimiser_bytes(nranks, *options):
    train('memory', nranks, '--optimizer', 'adam', '--profile', *options)
    line = re.search(r'^  optimiser +([0-9]+)', train.out, re.MULTILINE)
    expect(line, train.out)
    return int(line[1])


@case
def test_each_has_its_part_of_the_memory():
    whole, quarter = optimiser_bytes(4), optimiser_bytes(4, SHARD)
    print(f'# {whole} and {quarter} bytes', flush=True)
    expect(whole / 4 <= quarter < whole / 4 + 8192, whole, quarter)


@case
def test_wrong_options_are_refused():
    train_kit.refuses((
        (['--exchange', 'layers'], 'valid is packed'),
        (['--wire', 'bf16'], 'valid is f32'),
        (['--strategy', 'sync-easgd1'], 'valid with sync')), SHARD)


if __name__ == '__main__':
    with train_kit.FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
