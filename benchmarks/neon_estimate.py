#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the NEON tiles of the trainer's convolutions should reach: an estimate.

    benchmarks/neon_estimate.py [--cc aarch64-linux-gnu-gcc] [--mca llvm-mca]
        [--cpus cortex-a72,a64fx] [--json FILE]

No Arm processor is measured. trainer/kernels/conv_tile.c is compiled for 64-bit
Arm as meson.build does it, and llvm-mca runs the inner loop of each tile and sum
on its model of a processor, all loads from the first cache and no branch missed.
Cycles are those of one turn of the loop; the peak is what the same model makes of
multiply-adds that wait for nothing. So the percentage says what the loop itself
costs, loads and dependences, and not what memory adds.

The FT-2000+'s core (FTC662) has no model in LLVM. cortex-a72 stands in for it, as
its model begins one multiply-add of 16 bytes a cycle, which is what 588.8 GFLOP/s
of doubles by 64 cores at 2.3 GHz (recalled) come to. LLVM 14 has no model of its
own for it nor for neoverse-n1: both are a cortex-a57 there. a64fx has one, begins
two a cycle, and so shows what a wider core makes of the same loops.

Status: 0; 77: no compiler or no llvm-mca (Debian: gcc-aarch64-linux-gnu, llvm).
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..')
LANES, REGISTERS, TURNS = 4, 32, 1000
FLAGS = ['-std=c17', '-D_GNU_SOURCE', '-O3', '-Wno-psabi',
         '-ffp-contract=fast', '-DCONV_ISA=neon', f'-DCONV_LANES={LANES}',
         f'-DCONV_REGISTERS={REGISTERS}']
NAMES = re.compile(r'(tile|sum)_(\d+)_(\d+):$')


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--cc', default='aarch64-linux-gnu-gcc')
    parser.add_argument('--mca', default=shutil.which('llvm-mca')
                        or 'llvm-mca-14')
    parser.add_argument('--cpus', default='cortex-a72,a64fx')
    parser.add_argument('--json')
    return parser.parse_args()


def functions(assembler):
    """The lines of each tile and sum, by name."""
    found, lines = {}, None
    for line in assembler.splitlines():
        name = NAMES.match(line)
        if name:
            lines = found[name.group(0)[:-1]] = []
        elif line.startswith('\t.size'):
            lines = None
        elif lines is not None:
            lines.append(line)
    return found


def multiply_adds(lines):
    return sum(line.split()[0] in ('fmla', 'fmadd') for line in lines)


def inner_loop(lines):
    """Between a label and a jump back to it, with no label between: of these the
    one with most multiply-adds."""
    best, start, label = [], 0, None
    for i, line in enumerate(lines):
        if re.match(r'\.?\w+:', line):
            start, label = i + 1, line.split(':')[0]
        elif label and re.search(rf'\t(b\.?\w*|cbn?z|tbn?z)\t.*{re.escape(label)}$',
                                 line):
            body = [x for x in lines[start:i + 1] if not x.startswith('\t.')]
            if multiply_adds(body) > multiply_adds(best):
                best = body
    return best


def cycles(args, cpu, body):
    """Of one turn, in the long run."""
    done = subprocess.run(
        [args.mca, '-mtriple=aarch64-linux-gnu', f'-mcpu={cpu}',
         f'-iterations={TURNS}', '-instruction-info=0', '-resource-pressure=0'],
        input='\n'.join(body) + '\n', text=True, capture_output=True,
        check=False)
    total = re.search(r'Total Cycles:\s+(\d+)', done.stdout)
    if done.returncode or not total:
        raise RuntimeError(f'{args.mca}: {done.stderr.strip()}')
    return int(total.group(1)) / TURNS


def estimate(args, cpu, loops):
    """A row for each loop: multiply-adds of 16 bytes against their peak."""
    free = [f'\tfmla\tv{i}.4s, v30.4s, v31.4s' for i in range(28)]
    peak = len(free) / cycles(args, cpu, free)
    rows = []
    for name, body in loops.items():
        count, spent = multiply_adds(body), cycles(args, cpu, body)
        rows.append({'cpu': cpu, 'loop': name, 'instructions': len(body),
                     'fma': count, 'cycles': round(spent, 2),
                     'fma_per_cycle': round(count / spent, 3),
                     'peak_fma_per_cycle': round(peak, 3),
                     'percent_of_peak': round(100 * count / spent / peak, 1)})
    return rows


def main():
    args = arguments()
    for tool in args.cc, args.mca:
        if not shutil.which(tool):
            print(f'neon_estimate.py: {tool} is not installed')
            return 77
    compiled = subprocess.run(
        [args.cc, *FLAGS, '-I' + os.path.join(ROOT, 'trainer'), '-S', '-o', '-',
         os.path.join(ROOT, 'trainer', 'kernels', 'conv_tile.c')], text=True,
        capture_output=True, check=False)
    if compiled.returncode:
        print(f'neon_estimate.py: {compiled.stderr.strip()}', file=sys.stderr)
        return 1
    loops = {name: inner_loop(lines)
             for name, lines in functions(compiled.stdout).items()}
    rows = [row for cpu in args.cpus.split(',')
            for row in estimate(args, cpu, loops)]
    version = subprocess.run([args.mca, '--version'], text=True,
                             capture_output=True, check=False).stdout
    print('An estimate by', re.search(r'.*LLVM version \S+', version).group(0)
          .strip() + ', not a measurement. FMA: of 4 floats.\n')
    print('| model | loop | instructions | FMA | cycles | FMA/cycle | peak | '
          'peak/% |\n|---|---|---:|---:|---:|---:|---:|---:|')
    for row in rows:
        print('| ' + ' | '.join(str(x) for x in row.values()) + ' |')
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == '__main__':
    sys.exit(main())
