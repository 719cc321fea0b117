#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Nets beside PyTorch: usage net_torch_test.py BUILD_FOLDER [WORD...].

Every built-in net, and layers with options that no such net has, take one step
with dropout rates of 0. Its loss, gradients, and running means and variances
are compared with PyTorch's, and so is the loss in evaluation mode then.
PyTorch computes in double precision, so differences are the trainer's rounding.
They are measured tensor by tensor, as the largest difference in parts of the
largest magnitude, and are at most TOLERANCE.

Many layers of batchnorm make more of rounding, whoever rounds: each divides by
a deviation that is off itself. Where a net needs more than TOLERANCE, PyTorch
takes the step again in single precision, and its own worst difference of the
same kind (gradients, say), times SLACK, is what the trainer may have, but never
more than MOST.

Skips where PyTorch (Debian: python3-torch) is missing. WORDs choose cases.
"""
import math
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

SYSTEM_PYTHON = '/usr/bin/python3'
try:
    import torch
except ImportError:
    # Another Python comes first on the path than the one Debian installs for.
    if (os.path.exists(SYSTEM_PYTHON) and os.path.realpath(SYSTEM_PYTHON)
            != os.path.realpath(sys.executable)):
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print('1..0 # SKIP no PyTorch here (Debian: python3-torch)')
    sys.exit()
import net_reference  # noqa: E402
from net_texts import NETS, net_text  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TRAINER = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                       'trainer')
ENV = dict(os.environ, OPENBLAS_NUM_THREADS='1')
TOLERANCE = 1e-4
# Winograd's F(4x4, 3x3) multiplies by up to 8 before it adds up what cancels.
# Seen was 3.2, and 1.2 without it (resnet50).
SLACK = 8
MOST = 1e-2  # in any case: a net that needs more shows nothing
SEED = 20

FULL_SIZE = [('alexnet', 1, None), ('resnet50', 2, None)]

# Layers between two with parameters. Channels that fill blocks of 16, and
# those that do not, go different ways. "in" is what comes in.
LAYERS = [
    (7, 'conv 9 3x2 stride 2 pad 1'),
    (7, 'conv 5 1x4 stride 3 nobias'),
    (6, 'conv 9 3x3 groups 3 dilation 2 pad 2'),
    (6, 'conv 6 3x3 groups 6 pad 1'),
    (32, 'conv 32 3x3 pad 1'),
    (32, 'conv 48 3x3 nobias'),
    (32, 'conv 48 3x3 stride 2 pad 1'),
    (32, 'conv 16 5x3 stride 3 pad 2'),
    (32, 'conv 64 1x1 stride 2'),
    (64, 'conv 64 5x5 pad 2 groups 2'),
    (32, 'conv 32 3x3 groups 32 pad 1'),
    (32, 'conv 32 3x3 dilation 3 pad 3'),
    (16, 'conv 20 3x3 pad 1'),
    (20, 'conv 16 3x3 pad 1'),
    (7, 'maxpool 3x3 stride 2 ceil'),
    (7, 'maxpool 3x2 stride 2 pad 1'),
    (16, 'maxpool 2x5 stride 3 pad 1 ceil'),
    (7, 'maxpool 3x3 stride 1 pad 1\nmaxpool 3x3 stride 2'),  # equal numbers
    (7, 'maxpool global'),
    (7, 'conv 18 3x3 pad 1\nrelu\nmaxpool 2x2'),
    (7, 'conv 18 3x3 pad 1\nmaxpool 3x3 stride 2\nrelu'),
    (7, 'conv 18 3x3\nrelu\nmaxpool 2x2\nrelu'),
    (7, 'avgpool 3x3 stride 2 pad 1'),
    (7, 'avgpool 4x4 stride 3 pad 2 ceil'),
    (16, 'avgpool 2x3'),
    (7, 'avgpool global'),
    (7, 'lrn 5 k 0.0001'),  # so that the default of alpha matters
    (7, 'lrn 5 alpha 2'),
    (18, 'lrn 3 alpha 0.5 beta 0.75 k 2'),
    (32, 'lrn 7 alpha 2 beta 0.4'),
    (7, 'batchnorm'),
    (7, 'conv 8 3x3 pad 1 nobias\nlrn 1 alpha 0 beta 1 k 1000\n'
        'batchnorm'),  # so small that the default of eps matters
    (18, 'batchnorm eps 0.1 momentum 0.3'),
    (7, 'relu'),
    (18, 'prelu'),
    (18, 'scale'),
    (18, 'bias'),
    (7, 'dropout 0'),
    (7, 'dense 11'),
    (7, 'left: relu\nright: conv 7 3x3 pad 1 from in\nadd from left right in'),
    (7, 'left: relu\nright: conv 18 3x3 pad 1 from in\n'
        'concat from left right in'),
]
LOSSES = ['softmax_loss', 'softmax_loss smoothing 0.1']


def frame(channels, lines, loss='softmax_loss'):
    return (f'input 3x9x12\nin: conv {channels} 3x3 pad 1\n{lines}\n'
            f'dense 8\n{loss}\n')


def floats(folder, name):
    with open(os.path.join(folder, name), 'rb') as file:
        data = bytearray(file.read())
    return (torch.frombuffer(data, dtype=torch.float32) if data
            else torch.empty(0))


def job(text, batch, folder):
    """Writes into the folder; returns loss and right answers, by mode."""
    path = os.path.join(folder, 'net')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    done = subprocess.run(
        [os.path.join(BUILD, 'net_job'), path, str(batch), str(SEED), folder],
        env=ENV, capture_output=True, text=True, timeout=200, check=False)
    tap.expect(done.returncode == 0, done.stderr)
    lines = map(str.split, done.stdout.splitlines())
    return {mode: (float(loss), int(right)) for mode, loss, right in lines}


class Step:
    """What comes of one: read(number) is what layers with a kink read."""
    def __init__(self, read, loss, right, grads, state):
        self.read, self.loss, self.right = read, loss, right
        self.grads, self.state = grads, state


def step_of(run, images, labels):
    """The same of a run of PyTorch, which takes it."""
    loss, right = run.forward(images, labels)
    (loss / len(images)).backward()
    grads = [part.grad.flatten() for _, _, part in run.params.parts]
    state = [part.flatten() for _, _, part in run.state.parts]
    return Step(run.input, loss.item(), right, torch.cat(grads),
                torch.cat(state) if state else torch.empty(0))


def distance(ours, exact):
    """The largest difference, in parts of the largest magnitude. 0 of 0 is 0,
    and anything else of 0 is infinite."""
    size = exact.abs().max().item()
    error = (ours.double() - exact).abs().max().item()
    return error / size if size else float('inf') if error else 0.0


def gradient_distance(run, number, name, ours, exact):
    """A bias in front of a batchnorm has gradient 0, and what is computed is
    the rounding of a sum: its measure is the sum of magnitudes."""
    if name != 'bias' or not run.bias_is_lost(number):
        return distance(ours, exact)
    size = run.outputs[number].grad.abs().sum((0, 2, 3)).max().item()
    return (ours.double() - exact).abs().max().item() / size


def differences(step, run, exact):
    """(kind, where, how much) of a step to the exact one, which run took."""
    yield 'training loss', '', abs(step.loss - exact.loss) / exact.loss
    for number, layer in enumerate(run.layers):
        if layer.kind in net_reference.KINKS:
            x = run.input(number)
            yield ('activation', f' before layer {number}, {layer.kind}',
                   distance(step.read(number).reshape(x.shape), x))
    grads = net_reference.Vector(step.grads, torch.float64)
    state = net_reference.Vector(step.state, torch.float64)
    for number, name, part in run.params.parts:
        yield ('gradient', f' of layer {number}, '
               f'{run.layers[number].kind} {name}', gradient_distance(
                   run, number, name, grads.take(number, name, *part.shape),
                   part.grad))
    for number, name, part in run.state.parts:
        yield ('state', f' of layer {number}, {name}',
               distance(state.take(number, name, *part.shape), part))


def worst(rows):
    """Of each kind: (how much, where). No number is worse than any."""
    found = {}
    for kind, where, error in rows:
        if (kind not in found or math.isnan(error)
                or error > found[kind][0]):
            found[kind] = error, where
    return found


def judge(found, rounding):
    """rounding() is PyTorch's in single precision."""
    print('#', '; '.join(f'{kind} {error:.1e}{where}'
                         for kind, (error, where) in found.items()))
    if all(error <= TOLERANCE for error, _ in found.values()):
        return
    theirs = rounding()
    print('# single precision:', '; '.join(
        f'{kind} {error:.1e}{where}'
        for kind, (error, where) in theirs.items()))
    for kind, (error, where) in found.items():
        limit = min(MOST,
                    max(TOLERANCE, SLACK * theirs.get(kind, (0,))[0]))
        tap.expect(error <= limit, f'{kind} differs by {error:.2g}{where}, '
                   f'at most {limit:.2g} is right')


def evaluate(layers, params, state, images, labels):
    with torch.no_grad():
        return net_reference.Run(layers, params, state, False).forward(
            images, labels)


def compare(text, batch):
    shape, layers = net_reference.parse(text)
    with tempfile.TemporaryDirectory(prefix='net_torch_test.') as folder:
        printed = job(text, batch, folder)
        images = floats(folder, 'images').reshape(batch, *shape)
        labels = floats(folder, 'labels').view(torch.int32).long()
        params, before = floats(folder, 'params'), floats(folder, 'before')
        ours = Step(lambda number: floats(folder, f'{number}.x'),
                    *printed['training'], floats(folder, 'grads'),
                    floats(folder, 'state'))

        def run(dtype):
            return net_reference.Run(layers, params, before, True, ours.read,
                                     dtype)

        reference = run(torch.float64)
        exact = step_of(reference, images, labels)
        found = worst(differences(ours, reference, exact))
        loss, right = printed['evaluation']
        exact_loss, exact_right = evaluate(layers, params, exact.state, images,
                                           labels)
        found['evaluation loss'] = abs(loss / exact_loss.item() - 1), ''
        judge(found, lambda: worst(differences(
            step_of(run(torch.float32), images, labels), reference, exact)))
        tap.expect((ours.right, right) == (exact.right, exact_right),
                   f'right answers: {ours.right} and {right}, not '
                   f'{exact.right} and {exact_right}')


def every_kind_is_compared():
    with open(os.path.join(TRAINER, 'layer', 'layers.def'),
              encoding='utf-8') as file:
        kinds = set(re.findall(r'^LAYER\((\w+)\)', file.read(), re.M))
    texts = [frame(*row) for row in LAYERS]
    seen = {layer.kind for text in texts
            for layer in net_reference.parse(text)[1]}
    tap.expect(kinds == seen, kinds ^ seen)
    built_in = {name.removesuffix('.net')
                for name in os.listdir(os.path.join(TRAINER, 'nets'))
                if name.endswith('.net')}
    names = {name for name, _, _ in NETS}
    tap.expect(built_in == names, built_in ^ names)


def all_cases():
    yield 'every layer and every net is compared', every_kind_is_compared
    for channels, lines in LAYERS:
        words = lines.replace('\n', '; ')
        yield (f'{words}, of {channels} channels',
               lambda text=frame(channels, lines): compare(text, 3))
    for loss in LOSSES:
        yield (loss.replace('_', ' '),
               lambda text=frame(7, 'relu', loss): compare(text, 3))
    for name, batch, size in NETS + FULL_SIZE:
        words = name.replace('_', ' ')
        yield (f'{words}, batch {batch}, images of {size or "full size"}',
               lambda name=name, batch=batch, size=size:
               compare(net_text(name, size), batch))


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(list(all_cases()))))
