#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares training steps of coll_train with those of PyTorch on this machine.

    benchmarks/compare_torch.py [--build build] [--nets lenet:64,resnet20:128]
        [--threads 1] [--rounds 3] [--seconds 5] [--precision f32|bf16]
        [--json FILE]

A step is forward, backward and SGD with momentum and weight decay, on images
that are made up. Nets are built-in ones or files, each with its images a step.
PyTorch runs the same net, line by line of its text, in the four variants that
flags make: channels last or not, and with malloc told to keep its memory or not;
each round counts the fastest. Both run in turn, each in processes of its own,
with as many threads; who begins changes from round to round.

Printed is a table in Markdown: median over rounds of images a second (each the
median of its steps), the median of the rounds' ratios with the smallest and the
largest (more than 1: coll_train was faster), and the peak memory of the
processes (of PyTorch's the least). Status: 0 compared, 77 no PyTorch (Debian:
python3-torch), 1 something failed.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = ('lenet:64,resnet20:128,alexnet:32,googlenet:16,resnet18:16,'
        'resnet50:16,vgg16:8')
SYSTEM_PYTHON = '/usr/bin/python3'
KEEP = {'MALLOC_MMAP_MAX_': '0', 'MALLOC_TRIM_THRESHOLD_': str(16 << 30)}
FLAGS = ('ceil', 'nobias')


class Failed(Exception):
    """What a program said."""


# --- the same net in PyTorch ------------------------------------------------

def options_of(words):
    """The words after the first, as "stride 2 ceil"."""
    words, found = iter(words), {}
    for word in words:
        found[word] = True if word in FLAGS else float(next(words))
    return found


def window_of(word):
    return tuple(map(int, word.split('x')))


def module_of(words, shape):
    """A module for a line of one input, whose images have that shape."""
    from torch import nn
    kind = words[0]
    if kind in ('conv', 'maxpool', 'avgpool'):
        o = options_of(words[2 + (kind == 'conv'):])
        stride, pad = o.get('stride'), int(o.get('pad', 0))
    if kind == 'conv':
        return nn.Conv2d(shape[0], int(words[1]), window_of(words[2]),
                         int(stride or 1), pad, int(o.get('dilation', 1)),
                         int(o.get('groups', 1)), 'nobias' not in o)
    if kind in ('maxpool', 'avgpool'):
        window = shape[1:] if words[1] == 'global' else window_of(words[1])
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
    raise Failed(f'{kind}: no such layer in this comparison')


def build(text):
    """A module of all lines but the loss, and the shape of an image."""
    import torch
    from torch import nn
    lines, names, shape = [], {'input': -1}, None
    for line in text.splitlines():
        words = line.split('#')[0].split()
        if words and words[0] == 'input':
            shape = window_of(words[1])
        elif words and words[0] not in ('net', 'softmax_loss'):
            if words[0].endswith(':'):
                names[words.pop(0)[:-1]] = len(lines)
            sources = [len(lines) - 1]
            if 'from' in words:
                at = words.index('from')
                sources = [names[name] for name in words[at + 1:]]
                words = words[:at]
            lines.append((words, sources))
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


def child(path, batch, threads, last, precision, seconds):
    """One variant: prints images a second and the peak in MiB."""
    import resource
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    with open(path, encoding='utf-8') as file:
        net, shape, classes = build(file.read())
    layout = torch.channels_last if last else torch.contiguous_format
    net = net.to(memory_format=layout).train()
    images = torch.randn(batch, *shape).contiguous(memory_format=layout)
    labels = torch.randint(0, classes, (batch,))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9,
                          weight_decay=1e-4)
    took, begin = [], time.perf_counter()
    while len(took) < 4 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        sgd.zero_grad(set_to_none=True)
        with torch.autocast('cpu', torch.bfloat16,
                            enabled=precision == 'bf16'):
            y = net(images)
        torch.nn.functional.cross_entropy(y.float().flatten(1),
                                          labels).backward()
        sgd.step()
        took.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(batch / statistics.median(took[1:]), peak)


# --- both in turn -----------------------------------------------------------

def run(command, **env):
    """Standard output."""
    done = subprocess.run(command, env=dict(os.environ, **env), text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: status {done.returncode}\n"
                     f"{done.stderr.strip()}")
    return done.stdout


def run_torch(o, path, batch):
    """Images a second of the fastest variant, and the least peak."""
    rows = []
    for last in '01':
        for env in ({}, KEEP):
            out = run([sys.executable, os.path.abspath(__file__), '--child',
                       path, str(batch), str(o.threads), last, o.precision,
                       str(o.seconds / 4)], OMP_NUM_THREADS=str(o.threads),
                      **env)
            rows.append(tuple(map(float, out.split())))
    return max(r[0] for r in rows), min(r[1] for r in rows)


def run_coll(o, net, path, batch, rate):
    """rate: PyTorch's images a second; as long a run, were it as fast."""
    with open(path, encoding='utf-8') as file:
        shape = next(line.split()[1] for line in file
                     if line.startswith('input'))
    steps = max(4, int(o.seconds * rate / batch))
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, 'log')
        command = [os.path.join(o.build, 'coll_train'), '--net', net, '--data',
                   f'synthetic:{4 * batch}x{shape}', '--epochs', str(steps),
                   '--steps', str(steps), '--batch', str(batch), '--lr',
                   '0.0001', '--momentum', '0.9', '--weight-decay', '0.0001',
                   '--threads', str(o.threads), '--precision', o.precision,
                   '--log', log]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, COLL_STORE='off'))
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            raise Failed(f"{' '.join(command)}: status {status}\n{error}")
        with open(log, encoding='utf-8') as file:
            took = [json.loads(line).get('step_ms') for line in file]
    took = [t for t in took if t][1:]
    return batch / statistics.median(took) * 1e3, usage.ru_maxrss / 1024


def digits(x):
    return f'{x:.0f}' if x >= 100 else f'{x:.3g}'


def compare(o, net, batch):
    path = net if os.path.exists(net) else os.path.join(
        HERE, '..', 'trainer', 'nets', net + '.net')
    if not os.path.exists(path):
        raise Failed(f'--nets: found "{net}", valid is a built-in net or a '
                     'file, such as lenet:64')
    ours, theirs = [], []
    for i in range(o.rounds):
        if i % 2 == 0:
            theirs.append(run_torch(o, path, batch))
        ours.append(run_coll(o, net, path, batch, theirs[-1][0]))
        if i % 2 == 1:
            theirs.append(run_torch(o, path, batch))
    ratios = [a[0] / b[0] for a, b in zip(ours, theirs)]
    row = {'net': net, 'batch': batch, 'threads': o.threads,
           'precision': o.precision,
           'coll': statistics.median(r[0] for r in ours),
           'torch': statistics.median(r[0] for r in theirs),
           'ratio': statistics.median(ratios), 'ratios': ratios,
           'coll_mib': max(r[1] for r in ours),
           'torch_mib': min(r[1] for r in theirs)}
    print(f"| {net} | {batch} | {digits(row['coll'])} | "
          f"{digits(row['torch'])} | "
          f"{row['ratio']:.2f} ({min(ratios):.2f} to {max(ratios):.2f}) | "
          f"{row['coll_mib']:.0f} | {row['torch_mib']:.0f} |", flush=True)
    return row


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--nets', default=NETS)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--precision', choices=('f32', 'bf16'), default='f32')
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    if o.threads < 1 or o.rounds < 1 or o.seconds <= 0:
        parser.error('--threads, --rounds and --seconds are above 0')
    try:
        o.nets = [(net, int(batch)) for net, batch in
                  (pair.rsplit(':', 1) for pair in o.nets.split(','))]
    except ValueError:
        parser.error(f'--nets: found "{o.nets}", valid is like {NETS}')
    return o


def main():
    if sys.argv[1:2] == ['--child']:
        path, batch, threads, last, precision, seconds = sys.argv[2:]
        return child(path, int(batch), int(threads), last == '1', precision,
                     float(seconds))
    o = parse_options()
    # Imported by children only: what a process forks has its peak as well.
    if not importlib.util.find_spec('torch'):
        if (os.path.exists(SYSTEM_PYTHON) and os.path.realpath(SYSTEM_PYTHON)
                != os.path.realpath(sys.executable)):
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
        print('compare_torch.py: no PyTorch (Debian: python3-torch)',
              file=sys.stderr)
        return 77
    version = run([sys.executable, '-c',
                   'import torch; print(torch.__version__)']).strip()
    print(f'PyTorch {version}, {o.precision}, {o.threads} '
          f'thread{"s" * (o.threads > 1)}\n')
    print('| net | images a step | coll_train, images/s | PyTorch | ratio | '
          'coll_train, MiB | PyTorch |')
    print('|---|---:|---:|---:|---:|---:|---:|')
    try:
        rows = [compare(o, net, batch) for net, batch in o.nets]
    except Failed as failure:
        print(f'compare_torch.py: {failure}', file=sys.stderr)
        return 1
    if o.json:
        with open(o.json, 'w', encoding='utf-8') as file:
            json.dump({'torch': version, 'rows': rows}, file)
    return 0


if __name__ == '__main__':
    sys.exit(main())
