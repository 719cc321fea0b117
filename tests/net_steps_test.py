#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The built-in nets forward and back: usage net_steps_test.py BUILD.

A step of length E against the gradient g lowers the loss by E |g|, nearly. So once
--clip-norm has made a step that long, what it wins says how long g is, and a step
at the rate E / |g| without clipping must end in the same place. PyTorch's gradients
are in net_torch_test.py, where it is installed.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from net_texts import NETS, net_text  # noqa: E402
from tap import case, expect  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory(prefix='net_steps_test.')
E = 3e-5  # short, beside how the loss bends; long, beside its rounding
CLIP = 1e-3  # |g| is more


def path(name):
    return os.path.join(FOLDER.name, name)


def losses(net, shape, batch, *words):
    """Before each step. Of as many images as a step takes all have the same."""
    done = subprocess.run(
        [os.path.join(BUILD, 'coll_train'), '--net', net, '--data',
         f'synthetic:{batch}x{shape}', '--batch', str(batch), '--log',
         path('log'), *words],
        capture_output=True, text=True, timeout=120,
        env=dict(os.environ, OPENBLAS_NUM_THREADS='1'))
    expect(done.returncode == 0, net, done.stderr)
    with open(path('log'), encoding='utf-8') as file:
        return [row['loss'] for row in map(json.loads, file) if 'step' in row]


def won(text, batch, *words):
    """By the first step."""
    with open(path('net'), 'w', encoding='utf-8') as file:
        file.write(text)
    shape = next(line.split()[1] for line in text.splitlines()
                 if line.startswith('input '))
    first, second = losses(path('net'), shape, batch, '--epochs', '2', *words)
    return first - second


def expect_step(net, batch, size):
    text = net_text(net, size)
    clipped = won(text, batch, '--clip-norm', str(CLIP), '--lr', str(E / CLIP))
    expect(clipped > 2e-4, net, clipped)
    norm = clipped / E
    whole = won(text, batch, '--lr', str(E / norm))
    print(f'# |g| {norm:.4g}, won {clipped:.4g} and {whole:.4g}', flush=True)
    expect(abs(whole - clipped) < 0.02 * clipped, net, clipped, whole)


def claim(net, *how):
    def test():
        expect_step(net, *how)
    test.__name__ = f'test_a_step_of_{net}_wins_what_its_gradient_says'
    case(test)


for row in NETS:
    claim(*row)


@case
def test_alexnet_learns_small_images():
    """With dropout, and by heart: who guesses among ten has a loss of 2.3."""
    found = losses('alexnet_cifar', '3x32x32', 32, '--lr', '0.002',
                   '--momentum', '0.9', '--epochs', '70')
    expect(found[0] > 2 and sum(found[-10:]) / 10 < 1, found)


if __name__ == '__main__':
    with FOLDER:
        sys.exit(tap.run(tap.chosen(tap.CASES)))
