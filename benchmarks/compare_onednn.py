#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The trainer's convolutions beside oneDNN's, of the same shapes, in turn.

    benchmarks/compare_onednn.py [--build build]
        [--nets vgg16:4,alexnet:16,resnet50:4] [--threads 1] [--rounds 3]
        [--seconds 0.1] [--precision f32|bf16] [--under 'taskset -c 0']
        [--json FILE]

conv_bench says what a net's convolutions are and times its direct kernels, and
what it takes by itself (auto); peer_onednn.c, which is built here, times oneDNN's
by the same rule: direct beside direct, auto beside auto. Who begins changes from
round to round. oneDNN has every tensor in the order that it likes best, reorders
none and adds no biases, while conv_bench repacks the weights each time. With bf16
both have it in memory, conv_bench where the net has. A net is written as
NAME:IMAGES, or FILE:IMAGES.

Printed is a table in Markdown: for each pass GFLOP/s over the net (times x p50,
multiply-adds of the definition; median of the rounds), the median of the rounds'
ratios with the smallest and the largest (more than 1: conv_bench was faster), and
the layer with the least ratio. Status: 0 compared, 77 no oneDNN 2 (Debian 12:
libdnnl-dev) or no C compiler, 1 something failed.
"""
import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = 'vgg16:4,alexnet:16,resnet50:4'
WAYS = ('direct', 'auto')
PASSES = ('fwd', 'bwd_data', 'bwd_weights')
SHAPE = ('n', 'c', 'h', 'w', 'k', 'groups', 'kernel_h', 'kernel_w', 'stride',
         'pad', 'dilation')
RUN_SECONDS, SKIPPED = 600, 77
NEEDED = '''#include <oneapi/dnnl/dnnl.h>
#if DNNL_VERSION_MAJOR != 2
#error
#endif
'''


class Failed(Exception):
    """What a program said."""


def run(command, **more):
    done = subprocess.run(command, text=True, capture_output=True,
                          timeout=RUN_SECONDS, check=False, **more)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: status {done.returncode}\n"
                     f"{done.stderr.strip()}")
    return done.stdout


def installed():
    return shutil.which('cc') and not subprocess.run(
        ['cc', '-E', '-'], input=NEEDED, text=True, capture_output=True,
        check=False).returncode


def conv_bench(o, net, images, *words):
    """Its rows, by layer and pass."""
    with tempfile.NamedTemporaryFile(suffix='.json') as file:
        run([*shlex.split(o.under), os.path.join(o.build, 'conv_bench'),
             '--net', net, '--batch', str(images), '--threads',
             str(o.threads), '--dtype', o.precision, *words, '--json',
             file.name])
        with open(file.name, encoding='utf-8') as text:
            return {(row['layer'], row['pass']): row
                    for row in json.load(text)['results']}


def time_ours(o, net, images, _, way):
    """Milliseconds, by layer and pass, of what the kernels can do."""
    rows = conv_bench(o, net, images, '--kernel', way, '--seconds',
                      str(o.seconds))
    return {key: row['time_ms']['p50'] for key, row in rows.items()
            if 'cannot' not in row}


def time_onednn(o, _, __, shapes, way):
    """The same of oneDNN."""
    asked = ''.join(' '.join([row['pass'], *(str(row['shape'][key])
                                             for key in SHAPE)]) + '\n'
                    for row in shapes.values())
    said = run([*shlex.split(o.under), o.program, way, o.precision,
                str(o.seconds)],
               input=asked,
               env={**os.environ, 'OMP_NUM_THREADS': str(o.threads)})
    o.version, *answers = said.splitlines()
    times = [line.split()[1:] for line in answers]
    return {key: float(p50) for key, (p50, name, *_) in zip(shapes, times)
            if name != 'none'}


def both(number, *what):
    """What each took; odd rounds begin with oneDNN."""
    sides = [time_ours, time_onednn]
    took = {side: side(*what) for side in (sides[::-1] if number % 2
                                           else sides)}
    return [took[side] for side in sides]


def study(o, net, images):
    """{pass: {way: what compare() says}}, of what both can do."""
    shapes = conv_bench(o, net, images, '--check')
    found = {}
    for way in WAYS:
        rounds = [both(number, o, net, images, shapes, way)
                  for number in range(o.rounds)]
        for which in PASSES:
            keys = [key for key in shapes if key[1] == which
                    and all(key in side for sides in rounds for side in sides)]
            if keys:
                found.setdefault(which, {})[way] = compare(shapes, keys, rounds)
    return found


def compare(shapes, keys, rounds):
    sums = [[sum(shapes[key]['times'] * side[key] for key in keys)
             for side in sides] for sides in rounds]
    gflop = sum(shapes[key]['times'] * shapes[key]['gflop'] for key in keys)
    ratios = [theirs / ours for ours, theirs in sums]
    return {'coll_gflops': gflop * 1e3 / statistics.median(
                ours for ours, _ in sums),
            'onednn_gflops': gflop * 1e3 / statistics.median(
                theirs for _, theirs in sums),
            'ratio': statistics.median(ratios), 'ratios': ratios,
            'layers': {key[0]: statistics.median(
                theirs[key] / ours[key] for ours, theirs in rounds)
                for key in keys}}


def cells(row):
    if not row:
        return ' - |' * 4
    worst = min(row['layers'], key=row['layers'].get)
    return (f" {row['coll_gflops']:.0f} | {row['onednn_gflops']:.0f} | "
            f"{row['ratio']:.2f} ({min(row['ratios']):.2f} to "
            f"{max(row['ratios']):.2f}) | {row['layers'][worst]:.2f} "
            f"({worst}) |")


def show(net, images, found):
    for which, ways in found.items():
        print(f'| {net} | {images} | {which} |'
              + ''.join(cells(ways.get(way)) for way in WAYS), flush=True)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--nets', default=NETS)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=0.1)
    parser.add_argument('--precision', choices=('f32', 'bf16'), default='f32')
    parser.add_argument('--under', default='')
    parser.add_argument('--json', metavar='FILE')
    o = parser.parse_args()
    if min(o.threads, o.rounds) < 1 or o.seconds < 0:
        parser.error('--threads and --rounds are above 0, --seconds not '
                     'below')
    try:
        o.nets = [(net, int(images)) for net, images in
                  (pair.rsplit(':', 1) for pair in o.nets.split(','))]
    except ValueError:
        parser.error(f'--nets: found "{o.nets}", valid is like {NETS}')
    return o


def main():
    o = parse_options()
    if not installed():
        print('compare_onednn.py: no oneDNN 2 (Debian 12: libdnnl-dev)',
              file=sys.stderr)
        return SKIPPED
    print('| net | images | pass |' + ''.join(
        f' {way}, GFLOP/s | oneDNN | ratio | least |' for way in WAYS))
    print('|---|---:|---|' + '---:|' * 4 * len(WAYS))
    results = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            o.program = os.path.join(folder, 'peer_onednn')
            run(['cc', '-std=c17', '-O2', '-D_GNU_SOURCE', '-o', o.program,
                 os.path.join(HERE, 'peer_onednn.c'), '-ldnnl'])
            for net, images in o.nets:
                found = study(o, net, images)
                show(net, images, found)
                results.append({'net': net, 'images': images, 'passes': found})
    except (Failed, OSError, ValueError,
            subprocess.TimeoutExpired) as error:
        print(f'compare_onednn.py: {error}', file=sys.stderr)
        return 1
    print(f'\n{o.version}, {o.precision}, {o.threads} '
          f'thread{"s" * (o.threads > 1)}')
    if o.json:
        with open(o.json, 'w', encoding='utf-8') as file:
            json.dump({'onednn': o.version, 'precision': o.precision,
                       'threads': o.threads, 'nets': results}, file, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
