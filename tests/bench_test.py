# SPDX-License-Identifier: MIT
"""coll_bench from outside: table, files, checks, and what bad input gets.

Usage: bench_test.py BUILD_DIR; prints TAP. BUILD_DIR/bench_wrong is coll_bench
on a library that spoils one element of what a rank gets. Each test is a
function whose name is its claim.
"""
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
COLLRUN = os.path.join(BUILD, 'collrun')
BENCH = os.path.join(BUILD, 'coll_bench')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}
BENCH_WRONG = os.path.join(BUILD, 'bench_wrong')
COLLECTIVES = ('allreduce', 'reduce', 'broadcast', 'reduce_scatter',
               'allgather', 'gather', 'scatter', 'alltoall', 'reduce_scatter_v',
               'allgather_v', 'gather_v', 'scatter_v', 'alltoall_v',
               'sendrecv', 'pingpong', 'barrier')
PARTS = [name + v for v in ('', '_v') for name in (
    'reduce_scatter', 'allgather', 'gather', 'scatter', 'alltoall')]
TINY = ['-b', '8', '-e', '8K', '-f', '32', '-n', '3', '-w', '1']

# The contract with scripts: names may be added, never changed.
ROW_KEYS = {'collective', 'bytes', 'count', 'dtype', 'op', 'memory',
            'in_place', 'algorithm', 'time_us', 'algbw_GBps', 'busbw_GBps',
            'predicted_us', 'limit_us', 'limit_by', 'percent_of_limit',
            'wrong', 'cpu_s', 'bytes_moved', 'iterations'}


def bench(*args, ranks=1, program=BENCH, **settings):
    """Returns (status, stdout, stderr)."""
    start = [COLLRUN, '-n', str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, program, *map(str, args)], env={**ENV, **settings},
                          text=True, capture_output=True, timeout=60,
                          check=False)
    return done.returncode, done.stdout, done.stderr


def check(condition, *what):
    if not condition:
        raise AssertionError(' '.join(map(str, what)))


def results(collective, *args, ranks=1):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        status, out, err = bench(collective, *args, '--json', path,
                                 ranks=ranks)
        check(status == 0, 'status', status, out, err)
        check(os.listdir(folder) == ['out.json'], os.listdir(folder))
        with open(path, encoding='utf-8') as file:
            return json.load(file), out


def links(collective, ranks):
    """What busbw is of algbw."""
    cut = (ranks - 1) / ranks
    return {'allreduce': 2 * cut,
            **{name: cut for name in PARTS}}.get(collective, 1)


def parts(collective, ranks):
    """What S has of the call's count."""
    return ranks if collective in PARTS else 1


def check_row(row, ranks):
    name = row['collective']
    check(ROW_KEYS <= row.keys(), ROW_KEYS - row.keys())
    check(row['wrong'] == 0, row)
    check(row['count'] * 4 * parts(name, ranks) == row['bytes'], row)
    check((row['dtype'] == 'none') == (name == 'barrier'), row)
    check((row['op'] == 'none')
          == (name not in ('allreduce', 'reduce', 'reduce_scatter',
                           'reduce_scatter_v')), row)
    check(('root' in row)
          == (name in ('reduce', 'broadcast', 'gather', 'scatter', 'gather_v',
                       'scatter_v')), row)
    time = row['time_us']
    check(0 < time['min'] <= time['p50'] <= time['p99'] <= time['max'], time)
    algbw = row['bytes'] / time['p50'] / 1e3
    for key, wanted in (('algbw_GBps', algbw),
                        ('busbw_GBps', algbw * links(name, ranks)),
                        ('percent_of_limit',
                         100 * row['limit_us'] / time['p50'])):
        check(math.isclose(row[key], wanted, rel_tol=0.02, abs_tol=0.01), key,
              row)
    check(row['limit_us'] >= 0 and row['predicted_us'] >= 0, row)
    check(row['cpu_s'] >= 0 and row['bytes_moved'] >= 0, row)


def check_file(ranks):
    found, out = results('all', '-c', *TINY, ranks=ranks)
    check(found['format'] == 'coll_bench 1', found['format'])
    check(found['nranks'] == ranks and found['nhosts'] == 1, found)
    check(isinstance(found['machine'], str) and found['machine'])
    for name in COLLECTIVES:
        rows = [row for row in found['results'] if row['collective'] == name]
        unit = 4 * parts(name, ranks)
        sizes = ([0] if name == 'barrier' else
                 [] if name == 'pingpong' and ranks == 1 else
                 [max(size // unit, 1) * unit for size in (8, 256, 8192)])
        check([row['bytes'] for row in rows] == sizes, name, rows)
        for row in rows:
            check_row(row, ranks)
    check('# wrong elements: 0\n' in out, out)
    check(out.count('# coll_bench') == 1, 'more than rank 0 printed:', out)


@tap.case
def test_one_rank_alone_fills_the_file_as_documented():
    check_file(1)


@tap.case
def test_two_ranks_fill_the_file_as_documented():
    check_file(2)


@tap.case
def test_three_ranks_fill_the_file_as_documented():
    check_file(3)


@tap.case
def test_four_ranks_fill_the_file_as_documented():
    check_file(4)


def exact(*args, ranks):
    """Every collective, every iteration, and every way to lay it out."""
    status, out, err = bench('all', '-c', '-b', '60', '-e', '60000', '-f',
                             '1000', '-n', 3, '-w', 0, *args, ranks=ranks)
    check(status == 0 and '# wrong elements: 0\n' in out, args, ranks, out,
          err)


@tap.case
def test_every_collective_is_right_in_place():
    for ranks in (1, 2, 3, 4):
        exact('--in-place', '-r', ranks - 1, ranks=ranks)


@tap.case
def test_every_collective_is_right_on_any_memory_and_from_any_root():
    for ranks in (2, 3):
        exact('--memory', 'malloc', '-r', ranks - 1, ranks=ranks)
        exact('--memory', 'heap', '-r', ranks - 1, '-d', 'u8', ranks=ranks)


@tap.case
@tap.of_times
def test_half_of_a_round_trip_counts():
    # each of the two sends takes 5 ms in that program
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        bench('pingpong', '-b', '4K', '-e', '4K', '-n', 5, '--json', path,
              ranks=2, program=BENCH_WRONG)
        with open(path, encoding='utf-8') as file:
            [row] = json.load(file)['results']
    check(5e3 <= row['time_us']['min'] < 9e3, row)


@tap.case
def test_one_wrong_element_on_one_rank_is_found_in_every_collective():
    for name in tap.cases(COLLECTIVES[:-1], COLLECTIVES[:-1:3]):
        status, out, err = bench(name, '-b', '4K', '-e', '4K', '-n', 3, '-c',
                                 ranks=3, program=BENCH_WRONG)
        check(status == 1 and '# wrong elements: 3\n' in out, name, status,
              out, err)


@tap.case
def test_results_are_exact_for_every_dtype():
    dtypes = ('i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f16', 'bf16', 'f32', 'f64',
              'f8e4m3', 'f8e5m2')
    for dtype in tap.cases(dtypes, dtypes[::3]):
        status, out, err = bench('allreduce', '-b', '5000', '-e', '5000',
                                 '-n', 2, '-d',
                                 dtype, '-c', ranks=tap.cases(3, 2))
        check(status == 0 and '# wrong elements: 0' in out, dtype, out, err)


@tap.case
def test_nccl_tests_spellings():
    for words, dtype in ((('-d', 'float', '-c', '1'), 'f32'),
                         (('-c', '0', '-d', 'half'), 'f16'),
                         (('-d', 'bfloat16', '-c1'), 'bf16'),
                         (('--dtype=int64',), 'i64')):
        status, out, err = bench(*words, 'allreduce', '-b', '4K', '-e', '4K', '-n', 2, ranks=1)
        check(status == 0 and f' {dtype} ' in out and '# wrong elements: 0' in out, words, out, err)


@tap.case
def test_results_are_exact_for_every_op():
    ops = ('prod', 'min', 'max', 'avg', 'band', 'bor', 'bxor', 'land', 'lor')
    for op in tap.cases(ops, ops[::3]):
        status, out, err = bench('allreduce', '-b', '5000', '-e', '5000',
                                 '-n', 2, '-d',
                                 'i16', '-o', op, '-c', ranks=2)
        check(status == 0 and '# wrong elements: 0' in out, op, out, err)


@tap.case
def test_every_algorithm_is_measured_in_place_too():
    found, _ = results('allreduce', '--algo', 'all', '--in-place', '-b',
                       '64K', '-e', '64K', '-n', 2, ranks=2)
    names = [row['algorithm'] for row in found['results']]
    check(len(names) > 1 and len(set(names)) == len(names), names)
    check(all(row['in_place'] for row in found['results']))


@tap.case
def test_one_algorithm_is_forced():
    found, _ = results('allreduce', '--algo', 'ring', *TINY, ranks=2)
    check({row['algorithm'] for row in found['results']} == {'ring'}, found)


@tap.slow_case
def test_cold_runs_too():
    # an iteration writes twice the last-level cache, which takes its time
    for collective in 'allreduce', 'alltoall', 'broadcast':
        results(collective, '--cold', '-b', '8', '-e', '8', '-n', 2, '-w', 0)


@tap.case
def test_overlap_is_told_of_every_row():
    found, out = results(tap.cases('all', 'allreduce'), '-b', '64', '-e', '64K',
                         '-f', '1024', '-n', '3', '--overlap', ranks=2)
    rows = [row for row in found['results']
            if row['collective'] != 'pingpong']
    check(out.count('% hidden') == len(rows), out)
    for row in rows:
        told = row['overlap']
        alone, compute = told['alone_us'], told['compute_us']
        hidden = 100 * (alone + compute - told['both_us']) / min(alone, compute)
        check(alone > 0 and compute > 0, told)
        check(abs(hidden - told['hidden_percent']) < .1, told)


@tap.case
def test_groups_are_told_beside_the_same_calls_alone():
    for args in ([], ['--in-place', '-r', 1]):
        found, out = results('all', '-b', '60', '-e', '64K', '-f', '1000', '-n',
                             '3', '-c', '--group', 5, *args, ranks=3)
        rows = [row for row in found['results']
                if row['collective'] != 'pingpong']
        check(len(rows) > 20 and out.count('# ') > 20, out)
        check(out.count('group of 5: ') == len(rows), out)
        for row in rows:
            told = row['group']
            check(told['calls'] == 5 and row['wrong'] == 0, row)
            check(0 < told['together_us'] and 0 < told['alone_us'], told)
            check(math.isclose(told['ratio'], told['together_us']
                               / told['alone_us'], rel_tol=0.02), told)
    refused('--group', '0')


@tap.case
def test_a_wrong_element_in_a_group_is_found():
    # 1 of each of 3 iterations, and of 3 grouped and 3 single ones 4 calls each
    status, out, _ = bench('sendrecv', '-b', '4K', '-e', '4K', '-n', 3, '-c',
                           '--group', 4, ranks=2, program=BENCH_WRONG)
    check(status == 1 and '# wrong elements: 27\n' in out, status, out)


@tap.case
def test_modes_of_determinism_are_told_beside_off():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        status, out, err = bench(
            'all', '-b', '8', '-e', '4K', '-f', '512', '-n', 3, '-c',
            '--dtype', 'f16',
            '--determinism', 'full,run', '--json', path, ranks=3,
            COLL_ALGO='^node_inline,node_direct')
        check(status == 0, out, err)
        with open(path, encoding='utf-8') as file:
            rows = [row for row in json.load(file)['results']
                    if row['op'] == 'sum']
    check(len(rows) == out.count('determinism: ') == 8, out)
    for row in rows:
        modes = row['determinism']
        check(list(modes) == ['off', 'run', 'full'], modes)
        # the rule is one for allreduce
        ordered = [name for name in modes
                   if modes[name]['algorithm'].startswith('in_order')]
        check(ordered == ['full'] * (row['collective'] == 'allreduce'), row)
        for mode in modes.values():
            check(math.isclose(mode['ratio'], mode['p50_us']
                               / modes['off']['p50_us'], rel_tol=0.02), modes)
    check('did you mean layout?' in refused('--determinism', 'layuot'))
    refused('--determinism', 'full', '--algo', 'ring')


@tap.case
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


@tap.case
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
        # What was measured on other memory is another measurement.
        status, out, err = bench(*TINY, '--memory', 'malloc', '--baseline',
                                 path)
        check(status == 0 and 'no row in common' in out, out, err)


def refused(*args, **settings):
    """The one line that options or settings nobody can mean get."""
    status, out, err = bench(*args, **settings)
    check(status == 2, args, 'status', status, out, err)
    lines = err.strip().splitlines()
    check(len(lines) == 1 and lines[0].startswith('coll_bench: '), err)
    return lines[0]


@tap.case
def test_bad_options_name_the_nearest_valid_one():
    for args, wanted in (
            (['alreduce'], 'allreduce'), (['-d', 'f33'], 'f32'),
            (['broadcst'], 'broadcast'), (['--memory', 'hep'], 'heap'),
            (['-o', 'summ'], 'sum'), (['--algo', 'rng'], 'ring'),
            (['--itrations', '3'], '--iterations')):
        line = refused(*args)
        check(f'did you mean {wanted}?' in line, line)


@tap.case
def test_the_sentence_has_what_is_valid():
    line = refused('scan')
    check(all(name in line for name in COLLECTIVES + ('all',)), line)
    line = refused('sendrecv', '--in-place')
    check('without send or receive' in line, line)
    for args in (('pingpong', '--group', '2'), ('pingpong', '--overlap'),
                 ('broadcast', '--determinism', 'all')):
        line = refused(*args)
        check(args[1] in line and 'valid are' in line, line)
    check('two ranks' in refused('pingpong'))
    line = refused('--memory', 'stack')
    check('heap' in line and 'malloc' in line, line)


@tap.case
def test_algorithms_are_forced_on_uneven_parts_too():
    found, _ = results('allgather_v', '--algo', 'ring', '-c', *TINY, ranks=3)
    check({row['algorithm'] for row in found['results']} == {'ring'}, found)
    check('valid for gather_v are none' in refused('gather_v', '--algo', 'ring'))


@tap.case
def test_several_algorithms_are_forced():
    found, _ = results('allreduce', '--algo', 'ring,node_inline', *TINY,
                       '-n', '3000', ranks=2)
    check([row['algorithm'] for row in found['results']]
          == ['ring', 'node_inline'] * (len(found['results']) // 2), found)
    line = refused('allreduce', '--algo', 'ring,leader')
    check('leaders' in line, line)


@tap.case
def test_an_algorithm_of_another_collective_is_refused():
    line = refused('barrier', '--algo', 'ring')
    check('valid for barrier are' in line, line)


@tap.case
def test_values_out_of_range_are_refused():
    for args in (['-b', '8M', '-e', '4K'], ['-n', '0'], ['-e', 'much'],
                 ['-f', '1'], ['-r', '1'], ['-o', 'band'],
                 ['--cold', '--warm'], ['allreduce', 'twice']):
        refused(*args)


@tap.case
def test_bad_settings_are_refused():
    line = refused(*TINY, COLL_ALGO='rng')
    check('COLL_ALGO' in line and 'ring' in line, line)
    check('COLL_OP_SECONDS' in refused(*TINY, COLL_OP_SECONDS='soon'))
    check('COLL_RANK' in refused(*TINY, COLL_RANK='7'))


@tap.case
def test_ranks_with_other_options_than_the_rest_end_with_a_sentence():
    script = 'case $COLL_RANK in 1) exec "$0" reduce -n 3;; esac; exec "$0" -n 3'
    done = subprocess.run([COLLRUN, '-n', '3', 'sh', '-c', script, BENCH],
                          env=ENV, text=True, capture_output=True, timeout=60,
                          check=False)
    check(done.returncode == 2 and 'ranks have different options; all need'
          in done.stderr, done.returncode, done.stderr)


@tap.case
def test_a_table_that_cannot_be_written_is_an_error():
    with open('/dev/full', 'w', encoding='utf-8') as full:
        done = subprocess.run([BENCH, *TINY], env=ENV, stdout=full, text=True,
                              stderr=subprocess.PIPE, timeout=60, check=False)
    check(done.returncode == 1 and 'cannot write to standard output'
          in done.stderr, done.returncode, done.stderr)


@tap.case
def test_unusable_files_are_refused_before_measuring():
    check('/nowhere/x' in refused('--json', '/nowhere/x'))
    check('the file of --json' in refused('--json', 'x', '--csv', './x'))
    check('cannot be read' in refused('--baseline', '/nowhere/x'))
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        file.write('{"format": "coll_bench 1",\n "results": oops}')
        file.flush()
        check(':2:' in refused('--baseline', file.name))


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(tap.CASES)))
