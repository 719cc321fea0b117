#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far the way that the trainer takes for a convolution is from the fastest.

    benchmarks/kernel_choice.py [--build build] [--nets vgg16:4,resnet50:4]
        [--threads 1] [--rounds 3] [--seconds 0.02] [--under 'taskset -c 0']
        [--limit 1.05] [--warm] [--json FILE]

For each pass of each shape of a net, conv_bench measures all fixed ways in turn,
--rounds times, and the least time of each counts. Caches are cold, as in a step,
where other layers come between; --warm: what fits in them is there. What --kernel auto and --kernel
measured take (this one timed anew, in a cache of its own) is looked up in these
figures, so that a ratio compares two ways and not two runs of one. A net is
written as NAME:IMAGES, or FILE:IMAGES.

Printed are the layers where a choice is off by more than --limit, and for each net
the largest ratio, and the ratio of the sums (times x least time) over the net.
Status: 0 no sum of `measured` is off by more than --limit, 1 one is, or something
failed.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile

FIXED = ['direct', 'gemm', 'winograd', 'strassen']
CHOICES = ['auto', 'measured']
RUN_SECONDS = 600


class Failed(Exception):
    """What a program said."""


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--nets', default='lenet:64,resnet20:32,alexnet:16,'
                        'googlenet:8,resnet50:4,vgg16:4')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.02)
    parser.add_argument('--under', default='')
    parser.add_argument('--limit', type=float, default=1.05)
    parser.add_argument('--warm', action='store_true')
    parser.add_argument('--json')
    return parser.parse_args()


def measure(args, net, kernel, cache, seconds):
    """Rows of conv_bench, by layer and pass."""
    name, images = net.rsplit(':', 1)
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        command = [*shlex.split(args.under),
                   os.path.join(args.build, 'conv_bench'), '--net', name,
                   '--batch', images, '--kernel', kernel, '--threads',
                   str(args.threads), '--json', file.name]
        if seconds is None:
            command.append('--check')
        else:
            command += ['--seconds', str(seconds)] \
                + ([] if args.warm else ['--cold'])
        done = subprocess.run(command, text=True, capture_output=True,
                              timeout=RUN_SECONDS, check=False,
                              env=dict(os.environ, XDG_CACHE_HOME=cache))
        if done.returncode:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
        with open(file.name, encoding='utf-8') as text:
            return {(r['layer'], r['pass']): r
                    for r in json.load(text)['results']}


def study(args, net):
    """For each layer and pass: how often, the least times, the choices."""
    with tempfile.TemporaryDirectory() as cache:
        layers = {}
        for choice in CHOICES:
            for key, row in measure(args, net, choice, cache, None).items():
                layer = layers.setdefault(key, {'times': row['times'], 'ms': {},
                                                'takes': {}})
                layer['takes'][choice] = row['kernel']
        for _ in range(args.rounds):
            for way in FIXED:
                rows = measure(args, net, way, cache, args.seconds)
                for key, row in rows.items():
                    if 'cannot' in row:
                        continue
                    known = layers[key]['ms']
                    known[way] = min(known.get(way, float('inf')),
                                     row['time_ms']['min'])
    for layer in layers.values():
        best = min(layer['ms'].values())
        layer['ratio'] = {choice: layer['ms'][layer['takes'][choice]] / best
                          for choice in CHOICES}
    return layers


def summary(layers):
    """The largest ratio, and that of the sums, for each choice."""
    best = sum(x['times'] * min(x['ms'].values()) for x in layers.values())
    return {choice: {
        'worst': max(x['ratio'][choice] for x in layers.values()),
        'sum': sum(x['times'] * x['ms'][x['takes'][choice]]
                   for x in layers.values()) / best}
            for choice in CHOICES}


def show(args, net, layers, found):
    for (layer, which), x in layers.items():
        if max(x['ratio'].values()) <= args.limit:
            continue
        times = ', '.join(f'{way} {ms:.3f}' for way, ms in x['ms'].items())
        takes = ', '.join(f"{c} takes {x['takes'][c]} ({x['ratio'][c]:.2f}x)"
                          for c in CHOICES)
        print(f'{net} {layer} {which}: {times} ms; {takes}')
    for choice in CHOICES:
        print(f"{net}: {choice}: {found[choice]['sum']:.3f}x the fastest ways "
              f"in the sum, {found[choice]['worst']:.2f}x at worst, "
              f"{len(layers)} layers and passes", flush=True)


def main():
    args = arguments()
    results = {}
    try:
        for net in args.nets.split(','):
            layers = study(args, net)
            found = summary(layers)
            show(args, net, layers, found)
            results[net] = {**found, 'layers': {' '.join(key): x for key, x
                                                in layers.items()}}
    except (Failed, OSError, ValueError) as error:
        print(f'kernel_choice.py: {error}', file=sys.stderr)
        return 1
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump(results, file, indent=1)
    worst = max(r['measured']['sum'] for r in results.values())
    return 1 if worst > args.limit else 0


if __name__ == '__main__':
    sys.exit(main())
