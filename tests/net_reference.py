# SPDX-License-Identifier: MIT
"""What trainer/'s nets compute, computed by PyTorch.

It reads the notation of nets by itself, and takes parameters and state as the
trainer keeps them: one vector each, first layer first. Gradients come from
PyTorch's autograd.

Where a relu, a prelu or a maxpool has a kink the gradient jumps, and rounding
may put a number of the trainer on the other side of it than the exact one. No
tolerance covers that: one element of a thousand changes sides, and the sum over
them changes by a thousandth and more. So these layers branch as the numbers
say that the trainer's layer read, where these are given. Who compares them with
the exact ones as well sees every wrong branch.
"""
import pathlib
import sys

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent
                       / 'benchmarks'))
from net_text import layers_of, options_of, sides_of  # noqa: E402

torch.set_num_threads(1)
KINKS = ('relu', 'prelu', 'maxpool')


class Layer:
    """A line: its words without name and inputs. sources: numbers of layers;
    -1 is the images."""
    def __init__(self, kind, words, sources):
        self.kind, self.words, self.sources = kind, words, sources

    def options(self, first=0):
        return options_of(self.words[first:])

    def window(self, x):
        """Of the first word with an x, or global."""
        word = self.words[self.kind == 'conv']
        return tuple(x.shape[2:]) if word == 'global' else sides_of(word)


def parse(text):
    """The shape of an image, and all layers."""
    shape, layers = layers_of(text)
    return shape, [Layer(words[0], words[1:], sources)
                   for words, sources in layers]


class Vector:
    """Handed out from the front: what a layer takes is its own."""
    def __init__(self, floats, dtype, learned=False):
        self.floats, self.dtype, self.learned = floats, dtype, learned
        self.used, self.parts = 0, []  # (number of the layer, name, tensor)

    def take(self, number, name, *shape):
        count = torch.Size(shape).numel()
        part = self.floats[self.used:self.used + count].reshape(shape)
        part = part.to(self.dtype, copy=True).requires_grad_(self.learned)
        self.used += count
        self.parts.append((number, name, part))
        return part

    def over(self):
        return self.used == len(self.floats)


class Run:
    """One forward pass. read(number) gives what the trainer's layer of a kind
    in KINKS read; without it each branches as its own input says."""
    def __init__(self, layers, params, state, training, read=None,
                 dtype=torch.float64):
        self.layers, self.training, self.read = layers, training, read
        self.params = Vector(params, dtype, learned=training)
        self.state = Vector(state, dtype)
        self.dtype, self.images, self.outputs = dtype, None, []
        self.number, self.branches = 0, None  # of the layer under way

    def forward(self, images, labels):
        """The loss summed over the images, and how many are right."""
        self.images = images.to(self.dtype)
        for self.number, layer in enumerate(self.layers[:-1]):
            x = [self.output(at) for at in layer.sources]
            self.branches = self.branching(layer, x[0])
            y = FORWARD[layer.kind](self, layer, *x)
            if y.requires_grad:
                y.retain_grad()
            self.outputs.append(y)
        loss = self.layers[-1]
        assert self.params.over() and self.state.over()
        assert loss.kind == 'softmax_loss'
        logits = self.output(loss.sources[0]).flatten(1)
        return (functional.cross_entropy(
                    logits, labels, reduction='sum',
                    label_smoothing=loss.options().get('smoothing', 0.0)),
                (logits.argmax(1) == labels).sum().item())

    def output(self, number):
        return self.images if number < 0 else self.outputs[number]

    def input(self, number):
        """The first, of the layer of that number."""
        return self.output(self.layers[number].sources[0]).detach()

    def branching(self, layer, x):
        """What decides on which side of a kink x is."""
        if layer.kind not in KINKS or not self.read:
            return x.detach()
        return self.read(self.number).to(self.dtype).reshape(x.shape)

    def learn(self, name, *shape):
        return self.params.take(self.number, name, *shape)

    def bias_is_lost(self, number):
        """All that read it subtract the mean, so the gradient of a bias is 0,
        whatever the images are."""
        return all(layer.kind == 'batchnorm' and self.training
                   for layer in self.layers if number in layer.sources)


def conv(run, layer, x):
    options, outputs = layer.options(2), int(layer.words[0])
    groups = int(options.get('groups', 1))
    weight = run.learn('weight', outputs, x.shape[1] // groups,
                       *layer.window(x))
    bias = None if 'nobias' in options else run.learn('bias', outputs)
    return functional.conv2d(x, weight, bias, int(options.get('stride', 1)),
                             int(options.get('pad', 0)),
                             int(options.get('dilation', 1)), groups)


def pool_arguments(layer, x):
    options, window = layer.options(1), layer.window(x)
    return {'kernel_size': window,
            'stride': int(options['stride']) if 'stride' in options
            else window,
            'padding': int(options.get('pad', 0)),
            'ceil_mode': 'ceil' in options}


def maxpool(run, layer, x):
    _, places = functional.max_pool2d(run.branches, return_indices=True,
                                      **pool_arguments(layer, x))
    return x.flatten(2).gather(2, places.flatten(2)).reshape(places.shape)


def avgpool(_, layer, x):
    return functional.avg_pool2d(x, count_include_pad=False,
                                 **pool_arguments(layer, x))


def batchnorm(run, layer, x):
    options, channels = layer.options(), x.shape[1]
    weight, bias = run.learn('weight', channels), run.learn('bias', channels)
    running = [run.state.take(run.number, name, channels)
               for name in ('running_mean', 'running_var')]
    return functional.batch_norm(x, *running, weight, bias, run.training,
                                 options.get('momentum', 0.1),
                                 options.get('eps', 1e-5))


def per_channel(run, name, x):
    return run.learn(name, x.shape[1]).reshape(1, -1, 1, 1)


def lrn(_, layer, x):
    options = layer.options(1)
    return functional.local_response_norm(
        x, int(layer.words[0]), options.get('alpha', 1e-4),
        options.get('beta', 0.75), options.get('k', 1.0))


def dense(run, layer, x):
    rows, outputs = x.flatten(1), int(layer.words[0])
    weight = run.learn('weight', outputs, rows.shape[1])
    y = functional.linear(rows, weight, run.learn('bias', outputs))
    return y.reshape(*y.shape, 1, 1)


def dropout(_, layer, x):
    assert float(layer.words[0]) == 0, 'its zeros are random'
    return x


FORWARD = {
    'conv': conv,
    'maxpool': maxpool,
    'avgpool': avgpool,
    'batchnorm': batchnorm,
    'scale': lambda run, _, x: x * per_channel(run, 'weight', x),
    'bias': lambda run, _, x: x + per_channel(run, 'bias', x),
    'relu': lambda run, _, x: x * (run.branches > 0),
    'prelu': lambda run, _, x: torch.where(
        run.branches > 0, x, x * per_channel(run, 'weight', x)),
    'lrn': lrn,
    'dense': dense,
    'dropout': dropout,
    'add': lambda run, _, *x: sum(x),
    'concat': lambda run, _, *x: torch.cat(x, 1),
}
