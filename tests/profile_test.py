# SPDX-License-Identifier: MIT
"""coll_train --profile, --breakdown and --trace, from outside.

Usage: profile_test.py BUILD_DIR [WORD...]; prints TAP. Each test is a function
whose name is its claim. What the tables and traces should say follows from the
text of the net below, and from the times of steps in the log.
"""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import case, expect  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, 'coll_train')
COLLRUN = os.path.join(BUILD, 'collrun')
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith('COLL_')},
       'OPENBLAS_NUM_THREADS': '1', 'COLL_STORE': 'off'}
BATCH = 16
# Nothing learns in the pooling, so it has no backward, and the convolution
# behind it has no gradient of its input. The convolution and the sum do the
# relus behind them. A name may need care in JSON.
NET = '''net probe
input 1x28x28
maxpool 2x2
le-ft/1: conv 32 3x3 pad 1
left: relu
conv 48 3x3 pad 1 nobias
right: conv 32 1x1
add from right left
relu
dense 10
softmax_loss
'''
NAMES = ['-', 'le-ft/1', 'left', '-', 'right', '-', '-', '-', '-']
KINDS = ['maxpool', 'conv', 'relu', 'conv', 'conv', 'add', 'relu', 'dense',
         'softmax_loss']
FUSED = 2, 6
LEARNING, NO_DX = ('conv', 'dense'), '1 conv le-ft/1'
SHAPES = ['1x28x28', '1x14x14', '32x14x14', '32x14x14', '48x14x14', '32x14x14',
          '32x14x14', '32x14x14', '10', '10']
# Multiply-adds of an image, and how many gradients are as much again.
WORK = {1: (14 * 14 * 32 * 9, 1), 3: (14 * 14 * 32 * 48 * 9, 2),
        4: (14 * 14 * 48 * 32, 2), 7: (14 * 14 * 32 * 10, 2)}
NPARAMS = (32 * 9 + 32) + 48 * 32 * 9 + (32 * 48 + 32) + (6272 * 10 + 10)
PARTS = ['reading images', 'forward', 'backward', 'communication', 'update',
         'rest']
SPAN_SLACK = 0.01  # microseconds: doubles round times since the machine began


def train(*options, ranks=1, folder=None, images=10 * BATCH, env=None):
    """Returns (status, stdout, stderr, names of new files). Without a folder
    the files are gone then."""
    with tempfile.TemporaryDirectory(prefix='profile_test.') as own:
        folder = folder or own
        with open(os.path.join(folder, 'probe.net'), 'w') as file:
            file.write(NET)
        before = set(os.listdir(folder))
        start = [COLLRUN, '-n', str(ranks)] if ranks > 1 else []
        done = subprocess.run(
            [*start, TRAIN, '--net', './probe.net', '--data',
             f'synthetic:{images}', '--batch', str(BATCH), *options],
            env={**ENV, **(env or {})}, cwd=folder, text=True, capture_output=True, timeout=120,
            check=False)
        return (done.returncode, done.stdout, done.stderr,
                sorted(set(os.listdir(folder)) - before))


def succeeds(*options, **how):
    status, out, err, files = train(*options, **how)
    expect(status == 0 and not err, status, out, err)
    return out, files


def rows_of(out, first):
    """The words of the lines behind the one that begins so, up to a blank."""
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(first)) + 1
    return lines[at:lines.index('', at)]


def named_rows(out, first):
    """{name: [numbers]} of a table whose numbers come last."""
    split = [re.fullmatch(r' +(.*?) +([\d.]+) +([\d.]+)', line)
             for line in rows_of(out, first)]
    return {m[1]: [float(m[2]), float(m[3])] for m in split}


@functools.cache
def profiled():
    """What one run printed, and the milliseconds of its steps."""
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        out, _ = succeeds('--profile', '--log', 'log', '--epochs', '4',
                          folder=folder)
        with open(os.path.join(folder, 'log')) as file:
            log = [json.loads(line) for line in file]
    return out, [line['step_ms'] for line in log if 'step' in line]


def layer_rows():
    """(number, name, kind, input, output, milliseconds of forward and
    backward, share, GFLOP/s of both); None for "-"."""
    def number(word):
        return None if word in ('-', 'fused') else float(word)
    rows = []
    for line in rows_of(profiled()[0], 'layer'):
        words = line.replace(' +', '+').split() if ' +' in line \
            else line.split()
        rows.append((int(words[0]), *words[1:5], *map(number, words[5:])))
    return rows


@case
def test_without_the_options_nothing_is_written():
    out, files = succeeds('--steps', '4')
    expect(out.count('\n') == 1 and out.startswith('test accuracy '), out)
    expect(not files, files)


@case
def test_the_last_line_stays_last():
    expect(profiled()[0].splitlines()[-1].startswith('test accuracy '))


@case
def test_every_layer_has_a_line():
    rows = layer_rows()
    expect([row[0] for row in rows] == list(range(len(KINDS))), rows)
    expect([row[1] for row in rows] == NAMES, rows)
    expect([row[2] for row in rows] == KINDS, rows)
    inputs = SHAPES[:-1]
    inputs[5] += '+1'  # of two, the first
    expect([row[3] for row in rows] == inputs, rows)
    expect([row[4] for row in rows] == SHAPES[1:], rows)
    for row in rows:
        expect((row[5] is None) == (row[0] in FUSED), 'forward', row)
        expect((row[6] is None) == (row[0] in (0, *FUSED)), 'backward', row)
    lines = rows_of(profiled()[0], 'layer')
    expect(['fused' in line for line in lines]
           == [i in FUSED for i in range(len(KINDS))], lines)


@case
def test_rates_are_those_of_the_definition():
    for row in layer_rows():
        multiply_adds, gradients = WORK.get(row[0], (0, 0))
        for took, rate, times in ((row[5], row[8], 1),
                                  (row[6], row[9], gradients)):
            if not multiply_adds:
                expect(rate is None, row)
                continue
            want = 2e-6 * BATCH * multiply_adds * times / took
            rounding = 0.051 + want * 0.0006 / took
            expect(abs(rate - want) <= rounding, row, 'not', want)


@case
def test_parts_sum_to_the_wall_time():
    out, step_ms = profiled()
    expect(f'{len(step_ms) - 1} steps of {BATCH} images' in out, out)
    rows = named_rows(out, 'part of the step')
    expect(list(rows) == [*PARTS, 'step'], rows)
    want = sum(step_ms[1:]) / len(step_ms[1:])
    parts = sum(rows[name][0] for name in PARTS)
    expect(abs(parts - want) < 0.03 * want, parts, 'ms, not', want)
    expect(abs(rows['step'][0] - want) < 0.03 * want, rows, want)
    percent = sum(rows[name][1] for name in PARTS)
    expect(abs(percent - 100) < 0.5, rows)


@case
def test_layers_fill_forward_and_backward():
    rows = named_rows(profiled()[0], 'part of the step')
    both = rows['forward'][1] + rows['backward'][1]
    layers = sum(row[7] or 0 for row in layer_rows())
    expect(0.8 * both < layers < both + 0.05 * (len(KINDS) + 2), layers,
           'percent in layers, in forward and backward', both)
    expect(both > 50 and rows['rest'][1] < 10, rows)
    expect(rows['reading images'][0] > 0 and rows['update'][0] > 0, rows)


def floats(shape, blocked=True):
    c, *plane = map(int, shape.split('x'))
    h, w = plane or (1, 1)
    return ((c + 15) // 16 * 16 if blocked else c) * h * w


@case
def test_memory_is_counted_with_and_without_sharing():
    rows = {name: numbers[0]
            for name, numbers in named_rows(profiled()[0], 'memory').items()}
    page = os.sysconf('SC_PAGESIZE')
    bytes_ = (NPARAMS * 4 // page + 1) * page
    for name in ('parameters', 'gradients', 'optimiser'):
        expect(rows[name] == bytes_, rows, 'not', bytes_)
    outputs = sum(floats(shape) for shape in SHAPES[1:])
    gradients = sum(floats(shape) for shape in SHAPES[2:])
    apart = [4 * BATCH * (floats(SHAPES[0], blocked) + outputs + gradients)
             for blocked in (False, True)]
    expect(rows['the same without sharing'] in apart, rows, 'none of', apart)
    shared = rows['outputs and their gradients']
    expect(shared < rows['the same without sharing'], rows)
    expect(rows['peak of the whole process'] > shared + 3 * bytes_, rows)


@case
def test_what_changes_its_layout_is_counted():
    numbers = [floats(shape, blocked=False) for shape in SHAPES]
    images_and_dense = numbers[0] + 3 * numbers[7]
    # Forward and each gradient have to do with both sides.
    convs = sum((1 + WORK[i][1]) * (numbers[i] + numbers[i + 1])
                for i in (1, 3, 4))
    for kernel in 'gemm', 'auto':
        out, _ = succeeds('--profile', '--steps', '1', '--kernel', kernel)
        found, most = (row[0] for row in
                       named_rows(out, 'reordered in a step').values())
        expect(most == 4 * BATCH * (images_and_dense + convs), kernel, most)
        if kernel == 'gemm':
            expect(found == most, found, 'of', most)
        else:
            expect(4 * BATCH * images_and_dense <= found < most, found, 'of',
                   most)


def events_of(path):
    with open(path) as file:
        return json.load(file)['traceEvents']


def within(inner, outer):
    return (outer['ts'] - SPAN_SLACK <= inner['ts']
            and inner['ts'] + inner['dur']
            <= outer['ts'] + outer['dur'] + SPAN_SLACK)


def check_step(step, events):
    """That the parts lie in the step, one behind the other, and the layers in
    their part, in their order."""
    parts = [e for e in events if e['cat'] == 'part' and within(e, step)]
    expect([e['name'] for e in parts] == PARTS[:-1], step, parts)
    behind = sorted(parts, key=lambda e: e['ts'])
    expect(behind == parts, 'parts out of order', parts)
    for one, other in zip(parts, parts[1:]):
        expect(one['ts'] + one['dur'] <= other['ts'] + SPAN_SLACK, one, other)
    names = [f'{i} {kind}{"" if name == "-" else " " + name}'
             for i, (kind, name) in enumerate(zip(KINDS, NAMES))
             if i not in FUSED]
    forward = [('forward', name) for name in names]
    backward = [(cat, name) for name in names[:0:-1]
                for cat in ('gradients', 'backward')
                if name != NO_DX or cat == 'gradients'
                if name.split()[1] in LEARNING or cat == 'backward']
    for part, want in ((parts[1], forward), (parts[2], backward)):
        layers = [e for e in events if e['cat'] != 'part' and within(e, part)]
        layers.sort(key=lambda e: e['ts'])
        expect([(e['cat'], e['name']) for e in layers] == want, part, layers)
        for one, other in zip(layers, layers[1:]):
            expect(one['ts'] + one['dur'] <= other['ts'] + SPAN_SLACK, one,
                   other)
    return 1 + len(parts) + len(forward) + len(backward)


def check_trace(path, rank):
    events = events_of(path)
    for event in events:
        expect(event['ph'] == 'X' and event['tid'] == 0, event)
        expect(event['pid'] == rank and event['dur'] >= 0, event)
    steps = [e for e in events if e['cat'] == 'step']
    expect([e['name'] for e in steps] == [f'step {i}' for i in range(2, 7)],
           steps)
    for one, other in zip(steps, steps[1:]):
        expect(one['ts'] + one['dur'] <= other['ts'] + SPAN_SLACK, one, other)
    expect(sum(check_step(step, events) for step in steps) == len(events),
           'events that belong nowhere')


EIGHT = ['1 reading images', '2 initialising', '3 exchange inside a host',
         '4 waiting for the reader', '5 exchange, hosts and servers',
         '6 forward and backward', '7 update of the weights',
         '8 update of the centre', 'evaluation and checkpoints', 'rest', 'all']
KEYS = ['read', 'init', 'inside', 'data', 'outside', 'compute', 'update',
        'centre', 'test', 'rest']


@functools.cache
def broken_down(ranks, messages=False):
    """The table of a run as {name: numbers}, the log, and how long the process
    took from outside."""
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        began = time.monotonic()
        out, _ = succeeds('--breakdown', '--log', 'log', '--epochs', '3',
                          '--checkpoint', 'c', ranks=ranks, folder=folder,
                          env={'COLL_TRANSPORT': 'ucx'} if messages else {},
                          images=20 * BATCH * ranks)
        took = time.monotonic() - began
        with open(os.path.join(folder, 'log')) as file:
            log = [json.loads(line) for line in file]
    lines = out.splitlines()
    expect(lines[0].startswith('part of the run'), out)
    expect(lines[-1].startswith('test accuracy'), out)
    expect(('slowest' in out) == (ranks > 1), out)
    expect(lines[len(EIGHT) + 1].startswith('communication (3 to 5) '), out)
    rows = [re.fullmatch(r' +(.*?)((?: +[\d.]+)+)', line)
            for line in lines[1:len(EIGHT) + 1]]
    return {m[1]: [float(x) for x in m[2].split()] for m in rows}, log, took


def broken_down_quietly(ranks):
    """The first of a few runs in which nobody else had the processor between
    the parts."""
    for _ in range(4):
        found = broken_down(ranks)
        if found[0]['rest'][1] < 3:
            break
        broken_down.cache_clear()
    return found


@case
def test_the_eight_parts_sum_to_the_wall_time():
    for ranks in (1, 2):
        rows, log, took = broken_down_quietly(ranks)
        expect(list(rows) == EIGHT, rows)
        final = log[-1]
        parts = sum(rows[name][0] for name in EIGHT[:-2])
        if ranks == 1:  # others start at another moment
            expect(abs(parts - final['seconds']) < 0.03 * final['seconds'],
                   rows, final)
        expect(parts < took and final['seconds'] < took, rows, took)
        expect(rows['rest'][1] < 3, rows)
        percent = sum(rows[name][1] for name in EIGHT[:-1])
        expect(abs(percent - 100) < 0.6, rows)
        expect(rows['6 forward and backward'][1] > 10, rows)
        expect(rows['2 initialising'][0] > 0, rows)
        expect(rows['evaluation and checkpoints'][0] > 0, rows)
        expect(rows['8 update of the centre'][0] == 0, rows)
        for name, numbers in rows.items():
            if ranks > 1 and name != 'all':
                mean, _, least, most = numbers
                expect(least <= mean + 0.001 and mean <= most + 0.001, name,
                       numbers)


@case
def test_the_log_has_the_parts_of_each_step():
    for ranks in (1, 2):
        rows, log, _ = broken_down(ranks)
        for line in log[:-1]:
            parts = line['parts_ms']
            expect(list(parts) == KEYS, line)
            expect(abs(sum(parts.values()) - line['step_ms'])
                   < 0.001 * line['step_ms'], line)
            talk = parts['inside'] + parts['data'] + parts['outside']
            expect(abs(talk - line['comm_share'] * line['step_ms'])
                   < 0.001 * line['step_ms'], line)
        parts = log[-1]['parts_s']
        expect(list(parts) == KEYS, log[-1])
        for key, name in zip(KEYS, EIGHT):
            expect(abs(parts[key] - rows[name][0]) <= 0.0006, key, parts, rows)


@case
def test_exchanges_are_inside_a_host_or_not():
    rows, _, _ = broken_down(2)
    expect(rows['3 exchange inside a host'][0] > 0, rows)
    expect(rows['5 exchange, hosts and servers'][0] == 0, rows)
    rows, _, _ = broken_down(2, messages=True)
    expect(rows['3 exchange inside a host'][0] == 0, rows)
    expect(rows['5 exchange, hosts and servers'][0] > 0, rows)


@case
def test_the_slowest_rank_is_named():
    # Each epoch has one step, in which rank 0 has all images but one.
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        out, _ = succeeds('--breakdown', '--log', 'log', '--epochs', '20',
                          '--batch', '64', ranks=2, folder=folder, images=65)
        with open(os.path.join(folder, 'log')) as file:
            log = [json.loads(line) for line in file]
    slowest = [line['slowest_rank'] for line in log[:-1]]
    expect(len(slowest) == 20 and slowest.count(0) > 10, slowest)
    for line in log[:-1]:
        expect(0 <= line['slowest_ms'] < 1.001 * line['step_ms'], line)
    said = re.findall(r'^rank (\d) was the slowest in (.*) % of 20 steps '
                      r'\(by chance 50.0\), by (.*) ms on average$', out, re.M)
    stragglers = log[-1]['stragglers']
    # On a busy machine chance may explain it.
    expect(len(stragglers) == (slowest.count(0) > 16), slowest, stragglers)
    expect(len(said) == len(stragglers), out, stragglers)
    for one, (rank, share, late) in zip(stragglers, said):
        expect(one['rank'] == int(rank) == 0, out, stragglers)
        expect(one['share'] == slowest.count(0) / 20, slowest, stragglers)
        expect(abs(one['share'] * 100 - float(share)) < 0.1, said)
        # The log has six digits.
        expect(abs(one['late_ms'] - float(late)) < 0.001 + 1e-5 * float(late), said)


@case
def test_one_rank_waits_for_nobody():
    _, log, _ = broken_down(1)
    for line in log[:-1]:
        expect('slowest_rank' not in line and 'slowest_ms' not in line, line)
    expect(log[-1]['stragglers'] == [], log[-1])


@case
def test_a_trace_has_five_steps_with_all_in_them():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        out, files = succeeds('--trace', 'run.json', '--steps', '12',
                              folder=folder)
        expect(out.count('\n') == 1, out)
        expect(files == ['run.json'], files)
        check_trace(os.path.join(folder, 'run.json'), 0)


@case
def test_each_rank_writes_its_own_trace():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        os.mkdir(os.path.join(folder, 'a.b'))
        out, files = succeeds('--trace', 'run.json', '--profile', '--steps',
                              '8', ranks=2, folder=folder)
        expect(files == ['run.0.json', 'run.1.json'], files)
        expect(out.count('profile of rank') == 1, out)
        for rank in range(2):
            check_trace(os.path.join(folder, f'run.{rank}.json'), rank)
        _, files = succeeds('--trace', 'a.b/run', '--steps', '2', ranks=2,
                            folder=folder)
        expect(sorted(os.listdir(os.path.join(folder, 'a.b')))
               == ['run.0', 'run.1'], files)


@case
def test_what_is_sent_meanwhile_lies_between_the_layers():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        succeeds('--trace', 'run.json', '--steps', '7', '--exchange', 'layers',
                 ranks=2, folder=folder, env={'COLL_TRANSPORT': 'ucx'})
        events = events_of(os.path.join(folder, 'run.0.json'))
    parts = [e for e in events if e['cat'] == 'part']
    layers = [e for e in events if e['cat'] not in ('part', 'step')]
    expect(len([e for e in parts if e['name'] == 'communication']) > 5 * 4,
           'nothing is sent meanwhile', parts)
    for e in layers:
        name = 'forward' if e['cat'] == 'forward' else 'backward'
        expect(any(p['name'] == name and within(e, p) for p in parts),
               'in no part', e)
    # What is sent first goes before dx of the same layer.
    sent = min(p['ts'] for p in parts if p['name'] == 'communication')
    dense = [e['ts'] for e in layers if e['cat'] != 'forward'
             and e['name'] == '7 dense'][:2]
    dense.sort()
    expect(dense[0] < sent < dense[1], dense, sent)


@case
def test_the_first_step_and_short_batches_do_not_count():
    out, _ = succeeds('--profile', '--epochs', '3', images=2 * BATCH + 5)
    expect(f'profile of rank 0: 5 steps of {BATCH} images' in out, out)
    out, _ = succeeds('--profile', '--epochs', '3', images=5)
    expect('profile of rank 0: 2 steps of 5 images' in out, out)


@case
def test_one_step_leaves_nothing_to_measure():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        out, _ = succeeds('--profile', '--trace', 'run.json', '--steps', '1',
                          folder=folder)
        expect('no step to measure' in out and 'memory' in out, out)
        expect(events_of(os.path.join(folder, 'run.json')) == [])


@case
def test_a_job_file_takes_both():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        with open(os.path.join(folder, 'job.yaml'), 'w') as file:
            file.write('profile: true\ntrace: run.json\nsteps: 8\n')
        out, files = succeeds('job.yaml', folder=folder)
        expect('part of the step' in out, out)
        expect(files == ['run.json'], files)


@case
def test_bad_input_is_refused():
    with tempfile.TemporaryDirectory(prefix='profile_test.') as folder:
        for name, text in (('flag', 'profile: yes'), ('list', 'trace: [a]'),
                           ('near', 'profle: true')):
            with open(os.path.join(folder, name + '.yaml'), 'w') as file:
                file.write(text + '\n')
        for words, say in (
                (['--trace', '/nowhere/x.json'],
                 '--trace: /nowhere/x.json: cannot write'),
                (['--trace', folder], '--trace: ' + folder),
                (['--trace'], '--trace'),
                (['--profile=yes'], '--profile'),
                (['--profle'], 'did you mean --profile?'),
                (['flag.yaml'], 'flag.yaml:1:10: profile: found "yes"'),
                (['list.yaml'], 'list.yaml:1:8: trace: found a list'),
                (['near.yaml'], 'did you mean profile?')):
            status, out, err, files = train(*words, folder=folder)
            expect(status == 2 and say in err and err.count('\n') == 1
                   and not out and not files, words, status, out, err, files)


sys.exit(tap.run(tap.chosen(tap.CASES)))
