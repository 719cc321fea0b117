#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How soon coll_train and PyTorch learn what LeNet can, on this machine.

    benchmarks/compare_accuracy.py FOLDER [--build build] [--goal 0.99]
        [--seeds 1,2,3] [--threads 1] [--steps 3300] [--json FILE]

FOLDER has MNIST's IDX files, packed by gzip or not. Each side goes by the recipe
with which it was the soonest of those tried: PyTorch with batches of 64 and one
cycle of up to 0.05 in 2.5 epochs; coll_train with batches of 32, up to 0.02 and a
cosine in 1.76 epochs (--steps). Both run in turn, in processes of their own, with as many
threads. Seconds are those of training until test images were first seen to be told
so well: PyTorch's are looked at four times an epoch, coll_train's after each epoch
and at the end, and neither's looking counts.

Printed is a table in Markdown, and the ratio of the medians. Status: 0 both reached
the goal with all seeds, 77 no PyTorch (Debian: python3-torch), 1 something failed.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from compare_torch import (  # noqa: E402
    HERE, SYSTEM_PYTHON, Failed, run, text_of)

TORCH = os.path.join(HERE, 'torch_accuracy.py')
TORCH_RECIPE = ['2.5', '64', '0.05']  # epochs, batch, highest rate
OWN_RECIPE = ['--batch', '32', '--lr', '0.02', '--momentum', '0.9',
              '--weight-decay', '0.001', '--schedule', 'cosine', '--warmup',
              '300']


def run_torch(o, seed):
    """Seconds or None, and the last accuracy."""
    out, _ = run([SYSTEM_PYTHON, TORCH, o.folder, text_of('lenet'),
                  str(o.threads), *TORCH_RECIPE, str(seed), str(o.goal)],
                 OMP_NUM_THREADS=str(o.threads))
    first, last = out.split()
    return None if first == 'never' else float(first), float(last)


def run_coll(o, seed):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        run([os.path.join(o.build, 'coll_train'), '--net', 'lenet', '--data',
             f'mnist:{o.folder}', *OWN_RECIPE, '--steps', str(o.steps),
             '--threads', str(o.threads), '--seed', str(seed), '--log', log],
            COLL_STORE='off')
        with open(log, encoding='utf-8') as file:
            rows = [json.loads(line) for line in file]
    spent, first, last = 0.0, None, 0.0
    for row in rows:
        spent += row.get('step_ms', 0) / 1e3
        last = row.get('test_accuracy', last)
        if first is None and last >= o.goal:
            first = spent
    return first, last


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', metavar='FOLDER')
    parser.add_argument('--build', default='build')
    parser.add_argument('--goal', type=float, default=0.99)
    parser.add_argument('--seeds', default='1,2,3')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--steps', type=int, default=3300)
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    try:
        o.seeds = [int(seed) for seed in o.seeds.split(',')]
    except ValueError:
        parser.error(f'--seeds: found "{o.seeds}", valid is like 1,2,3')
    if not 0 < o.goal < 1 or o.threads < 1 or o.steps < 301:
        parser.error('--goal is between 0 and 1, --threads above 0, --steps above 300')
    if not os.path.isdir(o.folder):
        parser.error(f'found "{o.folder}", valid is a folder of IDX files')
    o.folder = os.path.abspath(o.folder)
    o.build = os.path.abspath(o.build)
    return o


def said(found):
    first, last = found
    return (f'{first:.1f}' if first is not None else 'never') + f' | {last:.4f}'


def main():
    o = parse_options()
    rows = []
    try:
        for i, seed in enumerate(o.seeds):
            sides = (run_torch, run_coll)[::-1 if i % 2 else 1]
            found = {side: side(o, seed) for side in sides}
            rows.append((seed, found[run_coll], found[run_torch]))
    except Failed as failure:
        print(f'compare_accuracy.py: {failure}', file=sys.stderr)
        return failure.status
    print(f'| seed | coll_train, s to {o.goal} | in the end | PyTorch, s | in the '
          'end |\n|---:|---:|---:|---:|---:|')
    for seed, ours, theirs in rows:
        print(f'| {seed} | {said(ours)} | {said(theirs)} |')
    reached = all(one[0] is not None for row in rows for one in row[1:])
    if reached:
        medians = [statistics.median(row[side][0] for row in rows)
                   for side in (1, 2)]
        print(f'\nPyTorch takes {medians[1] / medians[0]:.2f} times as long '
              f'({medians[1]:.1f} and {medians[0]:.1f} s, medians).')
    if o.json:
        with open(o.json, 'w', encoding='utf-8') as file:
            json.dump([{'seed': seed, 'coll_train': ours, 'torch': theirs}
                       for seed, ours, theirs in rows], file)
    return 0 if reached else 1


if __name__ == '__main__':
    sys.exit(main())
