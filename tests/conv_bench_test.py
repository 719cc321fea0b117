# SPDX-License-Identifier: MIT
"""conv_bench from outside: shapes, table, files, and what bad input gets.

Usage: conv_bench_test.py BUILD_DIR; prints TAP. Each test is a function whose
name is its claim.
"""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
BENCH = os.path.join(BUILD, 'conv_bench')
CHOICE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..',
                      'benchmarks', 'kernel_choice.py')
PASSES = ['fwd', 'bwd_data', 'bwd_weights']
QUICK = ['--seconds', '0', '--batch', '2']

# The contract with scripts: names may be added, never changed.
HEAD_KEYS = {'format', 'net', 'batch', 'dtype', 'threads', 'machine', 'isa',
             'peak_gflops', 'results', 'sums'}
ROW_KEYS = {'layer', 'times', 'pass', 'kernel', 'isa'}
FIGURES = {'gflops', 'percent_of_peak', 'time_ms', 'max_rel_error'}
KERNELS = ('auto', 'direct', 'gemm', 'strassen', 'winograd')
# As trainer/bench/error.c derives them; LeNet's sums have at most 2 * 24 * 24
# or 50 * 25 products.
BOUNDS = {'direct': 1e-5, 'gemm': 1e-5, 'tile': 1e-5, 'strassen': 2e-5,
          'winograd': 1.5e-4}

# A small net with all that is odd: three names for one shape, groups, strides,
# dilation, an odd number of channels, images of many channels.
NET = '''net odd
input 3x19x17
first: conv 32 5x5 stride 2 pad 1
relu
a: conv 32 3x3 pad 1
relu
b: conv 32 3x3 pad 1
c: conv 32 3x3 pad 1 groups 2
conv 20 3x2 stride 2
conv 20 1x1
conv 36 3x3 pad 2 dilation 2 groups 4 nobias
dense 10
softmax_loss
'''


def run(*args):
    """Returns (status, stdout, stderr), without what the address sanitizer always
    says of fibres."""
    done = subprocess.run([BENCH, *map(str, args)], text=True, timeout=60,
                          capture_output=True, check=False)
    err = [line for line in done.stderr.splitlines(keepends=True)
           if 'ASan doesn\'t fully support makecontext' not in line]
    return done.returncode, done.stdout, ''.join(err)


def check(condition, *what):
    tap.expect(condition, *what)


def measured(*args):
    """What --json has, and the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        status, out, err = run(*args, '--json', path)
        check(status == 0 and not err, args, 'status', status, out, err)
        check(os.listdir(folder) == ['out.json'], os.listdir(folder))
        with open(path, encoding='utf-8') as file:
            return json.load(file), out


def own_net(folder, text=NET):
    path = os.path.join(folder, 'a.net')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def isas():
    """Those that this machine has."""
    return [isa for isa in ('avx512', 'avx2', 'neon', 'scalar')
            if run('--net', 'lenet', '--isa', isa, '--list')[0] == 0]


def listed(net):
    """Rows of --list, as words."""
    status, out, err = run('--net', net, '--list')
    check(status == 0, out, err)
    return [line.split() for line in out.splitlines()
            if not line.startswith('#')]


def check_row(row):
    time = row['time_ms']
    check(0 < time['min'] <= time['p50'], row)
    check(row['runs'] >= 3, row)
    check(math.isclose(row['gflops'], row['gflop'] / time['p50'] * 1e3,
                       rel_tol=1e-4), row)
    peak = row['peak_gflops']  # 0 of an instruction set that only gemm has
    check(math.isclose(row['percent_of_peak'],
                       100 * row['gflops'] / peak if peak else 0,
                       rel_tol=1e-4), row)
    check(peak or row['isa'] in ('sse', 'avx', 'unknown'), row)
    check(0 <= row['max_rel_error'] <= row['error_bound'], row)
    check(row['max_rel_error'] > 0 or row['shape']['c'] < 4, row)


def check_sums(found):
    """Times x p50, over what could be done."""
    rows = found['results']
    check([s['pass'] for s in found['sums']] == PASSES, found['sums'])
    for s in found['sums']:
        mine = [r for r in rows if r['pass'] == s['pass']]
        done = [r for r in mine if 'cannot' not in r]
        check(s['convolutions'] == sum(r['times'] for r in done), s)
        check(s['convolutions'] + s['missing']
              == sum(r['times'] for r in mine), s)
        milliseconds = sum(r['times'] * r['time_ms']['p50'] for r in done)
        check(math.isclose(s['time_ms'], milliseconds, rel_tol=1e-5,
                           abs_tol=1e-6), s, milliseconds)
        flop = sum(r['times'] * r['gflop'] for r in done)
        check(math.isclose(s['gflop'], flop, rel_tol=1e-6), s, flop)
        if done:
            check(math.isclose(s['gflops'], flop / milliseconds * 1e3,
                               rel_tol=1e-4), s)


def check_file(found, kernel, threads=1):
    check(HEAD_KEYS <= found.keys(), HEAD_KEYS - found.keys())
    check(found['format'] == 'conv_bench 1', found['format'])
    check(found['threads'] == threads, found['threads'], threads)
    check(found['peak_gflops'] > 0.1, found['peak_gflops'])
    for row in found['results']:
        check(ROW_KEYS <= row.keys(), ROW_KEYS - row.keys())
        check(kernel in ('auto', row['kernel']), row)
        if 'cannot' in row:
            check(row['cannot'] and not FIGURES & row.keys(), row)
            continue
        check(FIGURES <= row.keys(), FIGURES - row.keys())
        check_row(row)
    check_sums(found)


@tap.case
def test_vgg16_has_thirteen_convolutions_of_nine_shapes():
    rows = listed('vgg16')
    check(len(rows) == 9, rows)
    check(sum(int(row[1]) for row in rows) == 13, rows)
    check({row[0]: int(row[1]) for row in rows} == {
        'conv1_1': 1, 'conv1_2': 1, 'conv2_1': 1, 'conv2_2': 1, 'conv3_1': 1,
        'conv3_2': 2, 'conv4_1': 1, 'conv4_2': 2, 'conv5_1': 3}, rows)
    check([row[9] for row in rows] == ['plain'] + 8 * ['blocked'], rows)
    # 15.35 billion multiply-adds an image, as the literature has it
    flop = sum(int(row[1]) * float(row[10]) for row in rows)
    check(abs(flop / 16 / 2 - 15.347) < 0.001, flop)


@tap.case
def test_every_built_in_net_is_listed():
    for net, convolutions in (('lenet', 2), ('alexnet', 5), ('googlenet', 57),
                              ('resnet50', 53), ('vgg19', 16)):
        rows = listed(net)
        check(sum(int(row[1]) for row in rows) == convolutions, net, rows)


@tap.slow_case
def test_lenet_is_measured_by_every_kernel_on_every_isa():
    check('scalar' in isas())
    for isa in isas():
        for kernel in KERNELS:
            found, _ = measured('--net', 'lenet', '--kernel', kernel, '--isa',
                                isa, *QUICK)
            check_file(found, kernel)
            check(found['isa'] == isa, found['isa'])
            check([(r['layer'], r['pass']) for r in found['results']]
                  == [('0.conv', 'fwd'), ('0.conv', 'bwd_weights')]
                  + [('2.conv', p) for p in PASSES], found['results'])
            for row in found['results']:
                check(row['isa'] == isa or row['kernel'] == 'gemm', row)
                check(row.get('max_rel_error', 0) < BOUNDS[row['kernel']], row)
                check(('cannot' in row)
                      == (kernel == 'strassen' or kernel == 'winograd'
                          and row['layer'] == '0.conv'), row)


@tap.case
def test_scalar_is_direct_without_vectors():
    found, _ = measured('--net', 'lenet', '--kernel', 'scalar', *QUICK)
    check_file(found, 'direct')
    check({row['isa'] for row in found['results']} == {'scalar'}, found)


@tap.case
def test_tiles_of_a_sunway_in_software_are_right():
    with tempfile.TemporaryDirectory() as folder:
        for net in 'lenet', own_net(folder):
            found, _ = measured('--net', net, '--kernel', 'tile', *QUICK)
            check_file(found, 'tile')
            for row in found['results']:
                check('cannot' not in row and row['isa'] == 'scalar', row)
                check(row['way'] == 'explicit', row)  # of two images
                check(row['max_rel_error'] < BOUNDS['tile'], row)


@tap.slow_case
def test_each_way_of_a_sunway_checks_what_it_measures():
    text = ('net ways\ninput 32x4x4\nconv 32 3x3 pad 1\nconv 32 1x1\n'
            'dense 10\nsoftmax_loss\n')
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, text)
        for way in ('explicit', 'implicit', 'winograd'):
            found, out = measured('--net', net, '--kernel', 'tile_' + way,
                                  '--batch', 32, '--check')
            rows = found['results']
            check(len(rows) == 5, rows)
            for row in rows:
                can = way != 'winograd' or row['layer'] == '0.conv'
                check(('cannot' not in row) == can, row)
                if can:
                    check(row['way'] == way, row)
                    check(row['max_rel_error'] < BOUNDS['tile'], row)
            check(f' {way}\n' in out, out)


@tap.case
def test_what_is_left_out_is_told():
    found, out = measured('--net', 'lenet', *QUICK)
    check([(r['layer'], r['pass']) for r in found['left_out']]
          == [('0.conv', 'bwd_data')], found['left_out'])
    check('# left out: bwd_data of 0.conv' in out, out)
    check(found['sums'][1]['convolutions'] == 1, found['sums'])


def check_cannot(kernel, layers):
    """Layers of the odd net: what fills no block is left to gemm, and what is
    neither 3x3 nor 5x5 to others than Winograd, what is not 1x1 with many channels
    to others than Strassen."""
    if kernel == 'strassen':
        check({'a', 'first'} <= layers, layers)
    elif kernel == 'winograd':
        check('a' not in layers and {'first', '6.conv', '7.conv'} <= layers,
              layers)
    else:
        check(layers <= ({'8.conv'} if kernel == 'direct' else set()), kernel,
              layers)


@tap.case
def test_all_odd_layers_are_right_by_every_kernel():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder)
        for isa in tap.cases(isas(), [isas()[0], 'scalar']):
            for kernel in KERNELS:
                found, out = measured('--net', net, '--kernel', kernel,
                                      '--isa', isa, *QUICK)
                check_file(found, kernel)
                rows = {(r['layer'], r['pass']): r for r in found['results']}
                check(len(rows) == 17, rows.keys())
                check(rows['a', 'fwd']['times'] == 2, rows['a', 'fwd'])
                check(rows['c', 'fwd']['shape']['groups'] == 2)
                cannot = {key for key, r in rows.items() if 'cannot' in r}
                check_cannot(kernel, {layer for layer, _ in cannot})
                check(out.count('cannot: ') == len(cannot), out)


@tap.case
def test_strides_and_single_points_have_ways_of_their_own():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, 'input 32x9x9\nconv 64 1x1\nconv 96 1x1 stride 2\n'
                      'conv 32 3x3 stride 2 pad 1\ndense 10\nsoftmax_loss\n')
        for kernel, can in (('strassen', {'0.conv', '1.conv'}),
                            ('winograd', {'2.conv'})):
            found, _ = measured('--net', net, '--kernel', kernel, *QUICK)
            check_file(found, kernel)
            done = [r for r in found['results'] if 'cannot' not in r]
            check({r['layer'] for r in done} == can, kernel, done)
            for row in done:
                check(row['max_rel_error'] < BOUNDS['strassen'], row)


@tap.slow_case
def test_threads_share_out_images_also_more_than_there_are():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder)
        for kernel in tap.cases(KERNELS,
                                ('direct', 'winograd')):
            for threads, batch in ((3, 5), (4, 2)):
                found, out = measured('--net', net, '--kernel', kernel,
                                      '--threads', threads, '--seconds', 0,
                                      '--batch', batch)
                check_file(found, kernel, threads)
                check(f'{threads} threads' in out, out)
    found, _ = measured('--net', 'lenet', '--kernel', 'tile', '--threads', 2,
                        *QUICK)
    check_file(found, 'tile', 2)


@tap.case
def test_what_was_measured_is_among_the_ways():
    with tempfile.TemporaryDirectory() as cache:
        os.environ['XDG_CACHE_HOME'] = cache
        files = os.path.join(cache, 'libcoll', 'conv-*.txt')
        try:
            found, _ = measured('--net', 'lenet', '--kernel', 'measured',
                                *QUICK)
            (path,) = glob.glob(files)
            for isa in isas():
                measured('--net', 'lenet', '--kernel', 'measured', '--isa',
                         isa, *QUICK)
        finally:
            del os.environ['XDG_CACHE_HOME']
        check(len(glob.glob(files)) == len(isas()), glob.glob(files))
        check_file(found, 'auto')
        with open(path, encoding='ascii') as file:
            rows = [line.split() for line in file.read().splitlines()[1:]]
    # by channels, whether plain, and pass
    kept = {(row[1], row[14], row[15]): row[-1] for row in rows}
    for r in found['results']:
        words = {'fwd': 'forward', 'bwd_data': 'backward_data',
                 'bwd_weights': 'backward_weights'}
        key = (str(r['shape']['c']), str(int(r['shape']['plain'])),
               words[r['pass']])
        check(kept[key] == r['kernel'], key, kept, r)


@tap.slow_case
def test_choices_are_held_against_the_fastest_way():
    with tempfile.TemporaryDirectory() as folder:
        net, path = own_net(folder), os.path.join(folder, 'out.json')
        for limit, status in (1000, 0), (0.5, 1):
            done = subprocess.run(
                [sys.executable, CHOICE, '--build', BUILD, '--nets', net + ':2',
                 '--rounds', '2', '--seconds', '0', '--limit', str(limit),
                 '--json', path], text=True, timeout=60, capture_output=True,
                check=False)
            check(done.returncode == status and not done.stderr, done)
        with open(path, encoding='utf-8') as file:
            found = json.load(file)[net + ':2']
    check(len(found['layers']) == 17, found['layers'].keys())
    for choice in 'auto', 'measured':
        ratios = []
        for layer in found['layers'].values():
            least = min(layer['ms'].values())
            took = layer['ms'][layer['takes'][choice]]
            ratios.append(layer['ratio'][choice])
            check(math.isclose(ratios[-1], took / least), layer)
        check(min(ratios) >= 1 and found[choice]['worst'] == max(ratios), found)
        check(1 <= found[choice]['sum'] <= max(ratios), found[choice])
        check(f'{choice}: ' in done.stdout, done.stdout)


@tap.slow_case
def test_bf16_is_right_on_every_isa():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder)
        for isa in isas():
            for kernel in ('auto', 'direct'):
                found, out = measured('--net', net, '--dtype', 'bf16',
                                      '--kernel', kernel, '--isa', isa, *QUICK)
                check(found['dtype'] == 'bf16', found['dtype'])
                rows = [r for r in found['results'] if 'cannot' not in r]
                rounded = [r for r in rows if r['kernel'] == 'bf16']
                # shapes of which only the memory differs are one here
                alike = {str((r['pass'], {k: v for k, v in r['shape'].items()
                                          if 'dtype' not in k}))
                         for r in rounded}
                plain = [r for r in found['results']
                         if 'for AMX only' in r.get('cannot', '')]
                check(len(plain) in (0, 2)
                      and rounded == rows and len(alike) == 14 - len(plain)
                      if kernel == 'direct'
                      else len(rounded) > 2, out)
                for row in rows:
                    # of tensors that are bf16 in memory nothing is rounded
                    exact = (row['pass'] == 'bwd_weights' and 'bf16'
                             == row['shape']['x_dtype'] == row['shape']['y_dtype'])
                    check((row['max_rel_error'] > 1e-4)
                          == (row['kernel'] == 'bf16' and not exact), row)
                check(isa == 'avx512'
                      or f'# {isa} has no instructions for bf16' in out, out)
    found, _ = measured('--net', 'lenet', '--dtype', 'bf16', '--kernel',
                        'scalar', *QUICK)
    check([r['kernel'] for r in found['results']] == 5 * ['bf16'], found)


HALVED = '''net halved
input 3x12x12
conv 32 3x3 pad 1
batchnorm
relu
conv 32 3x3 pad 1
relu
conv 48 1x1
dense 10
softmax_loss
'''


@tap.slow_case
def test_memory_is_as_the_net_has_it():
    def memory(net, *words):
        found, out = measured('--net', net, '--dtype', 'bf16', *words, *QUICK)
        return ([(r['shape']['x_dtype'], r['shape']['y_dtype'])
                 for r in found['results'] if r['pass'] == 'fwd'], out)
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, HALVED)
        seen, out = memory(net, '--isa', 'avx2' if 'avx2' in isas() else 'auto')
        check(seen == 3 * [('f32', 'f32')] and 'in memory' not in out, out)
        if not run('--isa', 'amx', '--dtype', 'bf16', '--list')[0]:
            wanted = [('f32', 'f32'), ('bf16', 'bf16'), ('bf16', 'f32')]
            for kernel in ('auto', 'direct'):
                seen, out = memory(net, '--kernel', kernel)
                check(seen == wanted and '# of 2 shapes x or y' in out, out)


@tap.case
def test_images_of_many_channels_are_blocked():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, NET.replace('input 3x', 'input 16x'))
        check(listed(net)[0][9] == 'blocked', listed(net))
        found, _ = measured('--net', net, '--check')
        check(found['left_out'][0]['layer'] == 'first', found['left_out'])


@tap.slow_case
@tap.of_times
def test_cold_caches_take_longer():
    # Winograd's transformed weights are 9 MB, for next to no images
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, 'input 256x4x4\nconv 256 3x3 pad 1\ndense 10\n'
                              'softmax_loss\n')
        best = {}
        for option in 2 * ([], ['--cold']):
            found, out = measured('--net', net, '--batch', 1, '--kernel',
                                  'winograd', '--pass', 'fwd', '--iterations',
                                  9, *option)
            check(found['cold'] == bool(option), found)
            check(('cold caches' in out) == bool(option), out)
            least = found['results'][0]['time_ms']['min']
            best[bool(option)] = min(best.get(bool(option), least), least)
    check(best[True] > best[False], best)


@tap.case
def test_a_pass_alone_is_measured_alone():
    for name in PASSES:
        found, _ = measured('--net', 'lenet', '--pass', name, '--iterations',
                            3, '--batch', 1)
        check({r['pass'] for r in found['results']} == {name}, found)
        check([s['pass'] for s in found['sums']] == [name], found)
        check({r['runs'] for r in found['results']} == {3}, found)


@tap.case
def test_checking_measures_no_time():
    found, out = measured('--net', 'lenet', '--check')
    check(found['results'] and not found['sums'], found)
    check(all('time_ms' not in r and r['max_rel_error'] < BOUNDS[r['kernel']]
              for r in found['results']), found)
    check('# wrong: 0 of 5\n' in out, out)


@tap.case
def test_a_plot_is_drawn():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'a.png')
        status, out, err = run('--net', 'lenet', *QUICK, '--plot', path)
        check(status == 0, out, err)
        with open(path, 'rb') as file:
            check(file.read(8) == b'\x89PNG\r\n\x1a\n', 'no PNG')
        check(os.listdir(folder) == ['a.png'], os.listdir(folder))


def refused(*args):
    """The one line that options nobody can mean get."""
    status, out, err = run(*args)
    check(status == 2 and not out, args, 'status', status, out, err)
    lines = err.splitlines()
    check(len(lines) == 1 and lines[0].startswith('conv_bench: '), err)
    return lines[0]


@tap.case
def test_bad_input_gets_one_line_with_what_is_valid():
    for args, words in (
            (['--net', 'vgg61'], ['--net', 'vgg61', 'did you mean vgg16?']),
            (['--net', '/nowhere/x'], ['--net', '/nowhere/x']),
            (['--kernel', 'winogard'], ['winogard', 'did you mean winograd?']),
            (['--kernel', 'tlie'], ['tlie', 'did you mean tile?']),
            (['--isa', 'amx'], ['--isa', '"amx"', 'valid']),
            (['--isa', 'avx21'], ['avx21', 'scalar']),
            (['--isa', 'sclar'], ['did you mean scalar?']),
            (['--dtype', 'f16'], ['f16', 'f32', 'bf16']),
            (['--dtype', 'bf61'], ['bf61', 'did you mean bf16?']),
            (['--dtype', 'bf16', '--kernel', 'gemm'],
             ['"gemm"', 'in f32', 'auto, measured, direct']),
            (['--dtype', 'bf16', '--kernel', 'tile'], ['"tile"', 'in f32']),
            (['--pass', 'bwd_dat'], ['did you mean bwd_data?']),
            (['--threads', '0'], ['--threads', '0']),
            (['--batch', '0'], ['--batch', '0']),
            (['--batch', '100000'], ['--batch 100000', 'too large']),
            (['--iterations', '0'], ['--iterations', '0']),
            (['--seconds', '-1'], ['--seconds', '-1']),
            (['--jsn', 'x'], ['did you mean --json?']),
            (['--json', '/nowhere/x'], ['--json', '/nowhere/x']),
            (['--plot', '/nowhere/x'], ['--plot', '/nowhere/x']),
            (['--list', '--json', 'x'], ['--list', '--json']),
            (['--list', '--check'], ['--list', '--check']),
            (['vgg16'], ['vgg16', 'options only'])):
        line = refused(*args)
        check(all(word in line for word in words), args, line)


@tap.case
def test_scalar_goes_with_no_other_isa():
    best = isas()[0]
    if best == 'scalar':
        raise tap.Skip('this machine has no other')
    line = refused('--kernel', 'scalar', '--isa', best)
    check(f'"{best}", valid with --kernel scalar is scalar' in line, line)


@tap.case
def test_an_isa_of_another_processor_is_refused():
    other = [isa for isa in ('avx512', 'avx2', 'neon') if isa not in isas()]
    check(other, isas())
    for isa in other:
        check('processor' in refused('--isa', isa), isa)


@tap.case
def test_a_bad_net_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        net = own_net(folder, 'input 1x8x8\ndense 10\nsoftmax_loss\n')
        check('without a convolution' in refused('--net', net))
        net = own_net(folder, 'input 1x8x8\nconv 20 9x9\nsoftmax_loss\n')
        check('line 2' in refused('--net', net))


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(tap.CASES)))
