# SPDX-License-Identifier: MIT
"""coll_bench from outside: table, files, checks, and what bad input gets.

Usage: bench_test.py BUILD_DIR; prints TAP. Each test is a function whose name
is its claim.
"""
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import traceback

BUILD = os.path.abspath(sys.argv[1])
COLLRUN = os.path.join(BUILD, 'collrun')
BENCH = os.path.join(BUILD, 'coll_bench')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}
TINY = ['-b', '8', '-e', '8K', '-f', '32', '-n', '3', '-w', '1']

# The contract with scripts: names may be added, never changed.
ROW_KEYS = {'collective', 'bytes', 'count', 'dtype', 'op', 'memory',
            'in_place', 'algorithm', 'time_us', 'algbw_GBps', 'busbw_GBps',
            'predicted_us', 'limit_us', 'wrong'}


def bench(*args, ranks=1):
    """Returns (status, stdout, stderr)."""
    start = [COLLRUN, '-n', str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, BENCH, *map(str, args)], env=ENV, text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def check(condition, *what):
    if not condition:
        raise AssertionError(' '.join(map(str, what)))


def results(*args, ranks=1):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        status, out, err = bench('allreduce', *args, '--json', path,
                                 ranks=ranks)
        check(status == 0, 'status', status, out, err)
        check(os.listdir(folder) == ['out.json'], os.listdir(folder))
        with open(path, encoding='utf-8') as file:
            return json.load(file), out


def check_file(ranks):
    found, out = results('-c', *TINY, ranks=ranks)
    check(found['format'] == 'coll_bench 1', found['format'])
    check(found['nranks'] == ranks and found['nhosts'] == 1, found)
    check(isinstance(found['machine'], str) and found['machine'])
    check([r['bytes'] for r in found['results']] == [8, 256, 8192], found)
    for row in found['results']:
        check(ROW_KEYS <= row.keys(), ROW_KEYS - row.keys())
        check(row['wrong'] == 0 and row['count'] * 4 == row['bytes'], row)
        time = row['time_us']
        check(0 < time['min'] <= time['p50'] <= time['p99'] <= time['max'],
              time)
        algbw = row['bytes'] / time['p50'] / 1e3
        check(math.isclose(row['algbw_GBps'], algbw, rel_tol=0.02,
                           abs_tol=2e-6), row)
        check(math.isclose(row['busbw_GBps'], algbw * 2 * (ranks - 1) / ranks,
                           rel_tol=0.02, abs_tol=2e-6), row)
        check(row['limit_us'] >= 0 and row['predicted_us'] >= 0, row)
    check('# wrong elements: 0\n' in out, out)
    check(out.count('# coll_bench') == 1, 'more than rank 0 printed:', out)


def test_one_rank_alone_fills_the_file_as_documented():
    check_file(1)


def test_two_ranks_fill_the_file_as_documented():
    check_file(2)


def test_three_ranks_fill_the_file_as_documented():
    check_file(3)


def test_results_are_exact_for_every_dtype():
    for dtype in ('i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f16',
                  'bf16', 'f32', 'f64', 'f8e4m3', 'f8e5m2'):
        status, out, err = bench('-b', '5000', '-e', '5000', '-n', 2, '-d',
                                 dtype, '-c', ranks=3)
        check(status == 0 and '# wrong elements: 0' in out, dtype, out, err)


def test_results_are_exact_for_every_op():
    for op in ('prod', 'min', 'max', 'avg', 'band', 'bor', 'bxor', 'land',
               'lor'):
        status, out, err = bench('-b', '5000', '-e', '5000', '-n', 2, '-d',
                                 'i16', '-o', op, '-c', ranks=2)
        check(status == 0 and '# wrong elements: 0' in out, op, out, err)


def test_every_algorithm_is_measured_in_place_too():
    found, _ = results('--algo', 'all', '--in-place', '-b', '64K', '-e', '64K',
                       '-n', 2, ranks=2)
    names = [row['algorithm'] for row in found['results']]
    check(len(names) > 1 and len(set(names)) == len(names), names)
    check(all(row['in_place'] for row in found['results']))


def test_one_algorithm_is_forced():
    found, _ = results('--algo', 'ring', *TINY, ranks=2)
    check({row['algorithm'] for row in found['results']} == {'ring'}, found)


def test_cold_runs_too():
    results('--cold', '-b', '8', '-e', '8', '-n', 2, '-w', 0)


def test_csv_and_plot_are_written():
    with tempfile.TemporaryDirectory() as folder:
        table, image = os.path.join(folder, 'a.csv'), os.path.join(folder, 'a')
        status, _, err = bench(*TINY, '--csv', table, '--plot', image)
        check(status == 0, err)
        with open(table, encoding='utf-8') as file:
            rows = list(csv.DictReader(file))
        check([row['bytes'] for row in rows] == ['8', '256', '8192'], rows)
        with open(image, 'rb') as file:
            check(file.read(8) == b'\x89PNG\r\n\x1a\n', 'no PNG')
        check(len(os.listdir(folder)) == 2, os.listdir(folder))


def test_a_baseline_adds_ratios():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'before.json')
        check(bench(*TINY, '--json', path)[0] == 0)
        with open(path, encoding='utf-8') as file:
            before = json.load(file)
        for row in before['results']:
            row['time_us']['p50'] = 1e6
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(before, file)
        status, out, err = bench(*TINY, '--baseline', path)
        check(status == 0, err)
        check(out.count('  0.00x') == 3, out)
        check('geometric mean of 3 rows' in out, out)


def refused(*args, ranks=1):
    """The one line that options nobody can mean get."""
    status, out, err = bench(*args, ranks=ranks)
    check(status == 2, args, 'status', status, out, err)
    lines = err.strip().splitlines()
    check(len(lines) == 1 and lines[0].startswith('coll_bench: '), err)
    return lines[0]


def test_bad_options_name_the_nearest_valid_one():
    for args, wanted in (
            (['alreduce'], 'allreduce'), (['-d', 'f33'], 'f32'),
            (['-o', 'summ'], 'sum'), (['--algo', 'rng'], 'ring'),
            (['--itrations', '3'], '--iterations')):
        line = refused(*args)
        check(f'did you mean {wanted}?' in line, line)


def test_what_this_version_lacks_is_said():
    check('measures allreduce' in refused('broadcast'))
    check('valid is malloc' in refused('--memory', 'heap'))


def test_values_out_of_range_are_refused():
    for args in (['-b', '8M', '-e', '4K'], ['-n', '0'], ['-e', 'much'],
                 ['-f', '1'], ['-r', '1'], ['-o', 'band'],
                 ['--cold', '--warm'], ['allreduce', 'twice']):
        refused(*args)


def test_unusable_files_are_refused_before_measuring():
    check('/nowhere/x' in refused('--json', '/nowhere/x'))
    check('cannot be read' in refused('--baseline', '/nowhere/x'))
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        file.write('{"format": "coll_bench 1",\n "results": oops}')
        file.flush()
        check(':2:' in refused('--baseline', file.name))


def main():
    tests = [(name[5:], test) for name, test in globals().items()
             if name.startswith('test_')]
    print(f'1..{len(tests)}')
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        try:
            test()
            print(f'ok {number} - {name}', flush=True)
        except Exception:  # a test that breaks is a test that fails
            failed += 1
            print(f'not ok {number} - {name}', flush=True)
            print('# ' + traceback.format_exc().replace('\n', '\n# '),
                  flush=True)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
