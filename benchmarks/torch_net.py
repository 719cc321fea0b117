#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of compare_torch.py: a net's text as a module, and its steps.

    torch_net.py [RANK NRANKS FOLDER] NET BATCH THREADS LAST PRECISION SECONDS

prints images a second of this process, the peak in MiB, and the part of a step
that DistributedDataParallel adds to it. With several ranks, which meet in the
folder, that is over Gloo; PEER_INTERFACE may name its interface.
"""
import os
import statistics
import sys
import time

sys.dont_write_bytecode = True
from net_text import layers_of, options_of, sides_of  # noqa: E402


def module_of(words, shape):
    """A module for a line of one input, whose images have that shape."""
    from torch import nn
    kind = words[0]
    if kind in ('conv', 'maxpool', 'avgpool'):
        o = options_of(words[2 + (kind == 'conv'):])
        stride, pad = o.get('stride'), int(o.get('pad', 0))
    if kind == 'conv':
        return nn.Conv2d(shape[0], int(words[1]), sides_of(words[2]),
                         int(stride or 1), pad, int(o.get('dilation', 1)),
                         int(o.get('groups', 1)), 'nobias' not in o)
    if kind in ('maxpool', 'avgpool'):
        window = shape[1:] if words[1] == 'global' else sides_of(words[1])
        arguments = {'stride': int(stride) if stride else window,
                     'padding': pad, 'ceil_mode': 'ceil' in o}
        if kind == 'maxpool':
            return nn.MaxPool2d(window, **arguments)
        return nn.AvgPool2d(window, count_include_pad=False, **arguments)
    if kind == 'batchnorm':
        o = options_of(words[1:])
        return nn.BatchNorm2d(shape[0], o.get('eps', 1e-5),
                              o.get('momentum', 0.1))
    if kind == 'dense':
        count = shape[0] * shape[1] * shape[2]
        return nn.Sequential(nn.Flatten(), nn.Linear(count, int(words[1])),
                             nn.Unflatten(1, (int(words[1]), 1, 1)))
    if kind == 'lrn':
        o = options_of(words[2:])
        return nn.LocalResponseNorm(int(words[1]), o.get('alpha', 1e-4),
                                    o.get('beta', 0.75), o.get('k', 1.0))
    if kind == 'relu':
        return nn.ReLU(inplace=True)
    if kind == 'dropout':
        return nn.Dropout(float(words[1]))
    sys.exit(f'{kind}: no such layer in this comparison')


def build(text):
    """A module of all lines but the loss, and the shape of an image."""
    import torch
    from torch import nn
    shape, lines = layers_of(text)
    if lines[-1][0][0] == 'softmax_loss':
        lines.pop()
    last = {at: n for n, (_, sources) in enumerate(lines) for at in sources}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList()

        def forward(self, x):
            outputs = {-1: x}
            for n, (words, sources) in enumerate(lines[:len(self.parts)]):
                inputs = [outputs[at] for at in sources]
                if words[0] == 'add':
                    outputs[n] = sum(inputs[1:], inputs[0])
                elif words[0] == 'concat':
                    outputs[n] = torch.cat(inputs, 1)
                else:
                    outputs[n] = self.parts[n](inputs[0])
                for at in sources:
                    if last[at] == n:
                        outputs.pop(at, None)
            return outputs[len(self.parts) - 1]

    net, shapes = Net(), {-1: shape}
    for n, (words, sources) in enumerate(lines):
        if words[0] in ('add', 'concat'):
            inputs = [shapes[at] for at in sources]
            channels = (inputs[0][0] if words[0] == 'add'
                        else sum(s[0] for s in inputs))
            shapes[n] = (channels, *inputs[0][1:])
            net.parts.append(nn.Identity())
            continue
        part = module_of(words, shapes[sources[0]])
        part.eval()
        with torch.no_grad():
            shapes[n] = tuple(part(torch.zeros(1, *shapes[sources[0]])).shape
                              [1:])
        net.parts.append(part.train())
    return net, shape, shapes[len(lines) - 1][0]


def steps(step, seconds, nranks):
    """Seconds of each step; of all ranks equally many."""
    import torch
    took, begin = [], time.perf_counter()
    while True:
        start = time.perf_counter()
        step()
        took.append(time.perf_counter() - start)
        go_on = len(took) < 4 or time.perf_counter() - begin < seconds
        if nranks > 1:  # not part of a step
            flag = torch.tensor([float(go_on)])
            torch.distributed.broadcast(flag, 0)
            go_on = bool(flag.item())
        if not go_on:
            return took[1:]


def main(words):
    import resource
    import torch
    nranks, rank = 1, 0
    if len(words) == 9:
        rank, nranks = int(words[0]), int(words[1])
        if 'PEER_INTERFACE' in os.environ:
            os.environ['GLOO_SOCKET_IFNAME'] = os.environ['PEER_INTERFACE']
        torch.distributed.init_process_group(
            'gloo', init_method=f'file://{words[2]}/store', rank=rank,
            world_size=nranks)
    path, batch, threads, last, precision, seconds = words[-6:]
    batch, seconds = int(batch), float(seconds)
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    with open(path, encoding='utf-8') as file:
        net, shape, classes = build(file.read())
    layout = torch.channels_last if last == '1' else torch.contiguous_format
    net = net.to(memory_format=layout).train()
    if nranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net)
    images = torch.randn(batch, *shape).contiguous(memory_format=layout)
    labels = torch.randint(0, classes, (batch,))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9,
                          weight_decay=1e-4)

    def step():
        sgd.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16,
                            enabled=precision == 'bf16'):
            y = net(images)
        torch.nn.functional.cross_entropy(y.float().flatten(1),
                                          labels).backward()
        sgd.step()

    def alone():
        with net.no_sync():
            step()

    took = statistics.median(steps(step, seconds, nranks))
    share = 0
    if nranks > 1:
        share = 1 - statistics.median(steps(alone, seconds / 2, nranks)) / took
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if rank == 0:
        print(batch / took, peak, max(0, share), flush=True)
    if nranks > 1:  # Gloo's threads abort some exits
        os._exit(0)


if __name__ == '__main__':
    main(sys.argv[1:])
