# SPDX-License-Identifier: MIT
"""coll_sim from outside: closed forms, bytes by level, files, bad input.

Usage: sim_test.py BUILD_DIR [WORD...]; prints TAP. Each test is a function whose
name is its claim; WORDs choose some.

The closed forms are the usual ones for p ranks, each with a port of its own:
Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005; for groups of q ranks with
slower links between, the share of the vector that each rank sends across in a
reduce-scatter by halving, see crossing_share().
"""
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from sim_kit import (  # noqa: E402
    BETA, BUILD, ENV, FLAT, GROUPS, check, close, closed_forms, results, sim)

# The contract with scripts: names may be added, never changed.
ROW_KEYS = {'bytes', 'nranks', 'algorithm', 'rank_order', 'segments',
            'simulated_us', 'messages', 'bytes_sent', 'crossing', 'chosen',
            'plan_us', 'plan_bytes', 'rehearse_ms'}


@tap.case
def rows_have_the_keys_of_the_contract():
    found = results('allreduce', '--cluster', FLAT, '-n', 64, '-b', '1K',
                    '-e', '64K', '--algo', 'all')
    check(found['format'] == 'coll_sim 1', found['format'])
    check(found['cluster'] == FLAT and found['nranks'] == 64, found)
    for row in found['results']:
        check(ROW_KEYS <= row.keys(), ROW_KEYS - row.keys())
        check(sum(row['crossing'].values()) == row['bytes_sent'], row)
    for size in 1024, 4096, 16384, 65536:
        alike = [r for r in found['results'] if r['bytes'] == size]
        check(len(alike) > 5, size, alike)
        check(sum(r['chosen'] for r in alike) == 1, size)
        times = [r['simulated_us'] for r in alike]
        check(times == sorted(times), 'the fastest first')
        chosen = next(r for r in alike if r['chosen'])
        # prices are interpolated between lengths
        check(chosen['simulated_us'] <= 1.3 * times[0], chosen, times[0])
        names = [(r['algorithm'], r['rank_order'], r['segments'])
                 for r in alike]
        check(len(set(names)) == len(names), names)
    check(found['peak_kib'] > 1000, found['peak_kib'])
    priced = found['pricing'][0]
    check(priced['nranks'] == 64 and priced['rehearsals'] > 20
          and priced['cpu_s'] > 0, priced)


@tap.slow_case
def the_choice_stands_beside_its_algorithm_at_its_best():
    """Where the library takes other segments than are best, both are told: the
    least time of its algorithm and order is that of a run without a choice."""
    cluster = 'island:4 (2us 2GB/s) node:8 (1us 4GB/s)'
    alone = []
    for kib in 16, 24, 60:
        args = ('allreduce', '--cluster', cluster, '-n', 32, '-b', f'{kib}K',
                '--algo', 'hierarchical', '--order', 'block')
        told = results(*args)['results']
        segments = [row['segments'] for row in told]
        check(len(set(segments)) == len(segments), segments)
        check(sum(row['chosen'] for row in told) == 1, told)
        alone.append(len(told))
        times = [results(*args, '--segments', 2 ** k)['results'][0]
                 ['simulated_us'] for k in range(5) if kib >> k >= 4]
        close(told[0]['simulated_us'], min(times), 1e-9, told)
    check(set(alone) == {1, 2}, alone)


@tap.case
def costs_are_told_also_of_what_is_too_large():
    found = results('allreduce', '--cluster', FLAT, '-n', 64, '-b', '64K',
                    '--max-messages', 1000, '--algo', 'ring,binomial_tree',
                    '--costs')
    rows = {row['algorithm']: row for row in found['results']}
    check(rows.keys() == {'ring', 'binomial_tree'}, rows.keys())
    # three steps a round of the reduce-scatter, two of the allgather
    check(rows['ring']['plan_bytes'] == 63 * 5 * 32, rows['ring'])
    check('simulated_us' not in rows['ring']
          and 'rehearse_ms' not in rows['ring'], rows['ring'])
    check(rows['binomial_tree']['rehearse_ms'] > 0, rows)
    check(all(row['plan_us'] > 0 for row in rows.values()), rows)
    with tempfile.TemporaryDirectory() as folder:
        png, table = (os.path.join(folder, f) for f in ('a.png', 'a.csv'))
        status, out, err = sim('allreduce', '--cluster', FLAT, '-n', '8..64',
                               '-b', '64K', '--max-messages', 1000, '--algo',
                               'all', '--costs', '--plot', png, '--csv', table)
        check(status == 0 and not err, err)
        check('measured' in out and '<- chosen' not in out, out)
        ring = [line.split() for line in out.splitlines() if ' ring ' in line]
        check([(r[0], r[-1] == '-') for r in ring]
              == [('8', False), ('16', False), ('32', True), ('64', True)],
              ring)
        with open(png, 'rb') as file:
            check(file.read(8) == b'\x89PNG\r\n\x1a\n')
        with open(table, encoding='utf-8') as file:
            check(len({line.count(',') for line in file}) == 1)


@tap.case
def times_are_the_closed_forms_where_nothing_contends():
    names = closed_forms(2, 1, 0)
    for gamma_ns in 0, 0.5:
        for p in 2, 8, 32:
            found = results('allreduce', '--cluster', FLAT, '-n', p, '-b',
                            '1K', '-e', '64M', '-f', 64, '--algo',
                            ','.join(names), '--gamma', gamma_ns)['results']
            check(len(found) == len(names) * 3, len(found))
            for row in found:
                wanted = closed_forms(p, row['bytes'], gamma_ns * 1e-9)
                close(row['simulated_us'] * 1e-6, wanted[row['algorithm']],
                      1e-9, row)


def crossing_share(p, q, far):
    """far: the rounds across come first, and move the most."""
    return (p - q) / p if far else (p / q - 1) / p


@tap.case
def shares_across_groups_are_those_of_the_order(ranks=tap.cases((32, 64), (32,)), q=16,
                                                cluster=GROUPS):
    for p in ranks:
        found = results('allreduce', '--cluster', cluster, '-n', p, '-b',
                        p * 1024, '--algo',
                        'halving_doubling,halving_doubling_near')['results']
        check(len(found) == 4, len(found))
        for row in found:
            far = (row['algorithm'] == 'halving_doubling') \
                == (row['rank_order'] == 'block')
            # there and back: a reduce-scatter and an allgather
            share = row['crossing']['supernode'] / 2 / p / row['bytes']
            close(share, crossing_share(p, q, far), 1e-12, row)


@tap.slow_case
def the_table_of_shares_is_reproduced():
    table = {(512, True): 0.5, (512, False): 0.00195, (1024, True): 0.75,
             (1024, False): 0.00293, (4096, True): 0.9375,
             (4096, False): 0.00366, (32768, True): 0.99219,
             (32768, False): 0.00388}
    for (p, far), share in table.items():
        check(abs(crossing_share(p, 256, far) - share) < 1e-5, p, far)
    shares_across_groups_are_those_of_the_order((512, 1024, 4096), 256,
                                                'taihulight')


def halving_seconds(p, q, n, far):
    """By halving and doubling on TaihuLight's links, without adding."""
    near, across = 1 / 12e9, 1 / 3e9
    rounds, outer = math.log2(p), math.log2(p / q)
    shares = ((q - 1) * near + (p - q) * across if far
              else (p - p / q) * near + (p / q - 1) * across)
    return (2 * ((rounds - outer) * 1e-6 + outer * 3e-6)
            + 2 * shares * n / p)


@tap.case
def the_wrong_order_costs_what_the_closed_form_says():
    """64 ranks, 4 supernodes: every link across has a quarter of the rate,
    and each rank its own, so nothing contends."""
    p, q, n = 64, 16, 64 << 20
    rows = results('allreduce', '--cluster', GROUPS, '-n', p, '-b', n,
                   '--algo', 'halving_doubling', '--gamma', 0)['results']
    time_of = {r['rank_order']: r['simulated_us'] * 1e-6 for r in rows}
    close(time_of['block'], halving_seconds(p, q, n, far=True), 1e-9)
    close(time_of['round_robin'], halving_seconds(p, q, n, far=False), 1e-9)
    check(time_of['block'] / time_of['round_robin'] > 2.2, time_of)


@tap.slow_case
def the_choice_beats_halving_in_block_order_on_taihulight_twice():
    """Of four supernodes of 256, where nothing contends in either."""
    rows = results('allreduce', '--cluster', 'taihulight', '-n', 1024, '-b',
                   '1M', '-e', '64M', '-f', 8, '--gamma', 0)['results']
    check(len(rows) == 3, rows)
    for row in rows:
        plain = halving_seconds(1024, 256, row['bytes'], far=True)
        check(row['chosen'] and plain >= 2e-6 * row['simulated_us'], plain, row)


@tap.case
def a_shared_link_is_shared():
    """Four ranks in each of two racks send across all at once."""
    n = 8 << 20
    rows = results('allreduce', '--cluster',
                   'rack:2 (1us 1GB/s shared) node:4 (1us 1GB/s)', '-n', 8,
                   '-b', n, '--algo', 'recursive_doubling', '--gamma',
                   0)['results']
    for row in rows:
        close(row['simulated_us'] * 1e-6, 3e-6 + (2 + 4) * n * BETA, 1e-9)


@tap.case
def ranks_of_one_host_use_no_link():
    rows = results('allreduce', '--cluster', 'node:2 (1us 1GB/s)', '-n', 8,
                   '--ranks-per-host', 4, '-b', '1M', '--algo',
                   'halving_doubling', '--order', 'given')['results']
    dealt = results('allreduce', '--cluster', 'node:2 (1us 1GB/s)', '-n', 8,
                    '--ranks-per-host', 4, '-b', '1M', '--place',
                    'round_robin', '--algo', 'halving_doubling', '--order',
                    'given')['results']
    # across first: half the vector; last: an eighth
    check(rows[0]['crossing']['node'] == 8 << 20, rows)
    check(dealt[0]['crossing']['node'] == 2 << 20, dealt)
    check(rows[0]['crossing']['local'] == 6 << 20, rows)


@tap.case
def by_hosts_takes_what_the_library_prices():
    """The plan of one rank a host and two passes inside; and the price that
    coll_info tells, which is kept in steps of 1/256 octave."""
    for collective in tap.cases(('allreduce', 'reduce_scatter', 'allgather'),
                                ('allreduce',)):
        check_by_hosts(collective)


def check_by_hosts(collective):
    n = 23068672  # the middle of its octave, which is rehearsed
    cluster = 'node:4 (1us 1GB/s)'
    args = (collective, '--cluster', cluster, '-b', n)
    mine = results(*args, '-n', 16, '--ranks-per-host', 4, '--algo',
                   'ring@by_hosts,ring')['results']
    row = next(r for r in mine if r['rank_order'] == 'by_hosts')
    check(len({r['rank_order'] for r in mine}) >= 2, mine)
    dealt = results(*args, '-n', 16, '--ranks-per-host', 4, '--place',
                    'round_robin', '--algo', 'ring@by_hosts')['results']
    check(dealt[0]['simulated_us'] == row['simulated_us'], dealt, row)
    once = results(*args, '-n', 16, '--ranks-per-host', 4, '--algo', 'ring',
                   '--order', 'by_hosts', '--segments', 1)['results'][0]
    alone = results(*args, '-n', 4, '--algo', 'ring')['results'][0]
    for key in ('messages', 'bytes_sent', 'crossing'):
        check(once[key] == alone[key], key, once, alone)
    check(row['messages'] == row['segments'] * alone['messages'], row)
    inside = once['simulated_us'] - alone['simulated_us']
    check(row['segments'] > 1 and inside > 0, row, once)
    check(alone['simulated_us'] < row['simulated_us']
          < alone['simulated_us'] + 0.6 * inside, row, once, alone)
    done = subprocess.run(
        [os.path.join(BUILD, 'coll_info'), '--explain', collective,
         '--cluster', cluster, '-n', '16', '--ranks-per-host', '4', str(n),
         '--json'], env=ENV, text=True, capture_output=True, timeout=100,
        check=True)
    told = next(c for c in json.loads(done.stdout)['explain']['candidates']
                if (c['algorithm'], c['rank_order']) == ('ring', 'by_hosts'))
    same = results(*args, '-n', 16, '--ranks-per-host', 4, '--algo', 'ring',
                   '--order', 'by_hosts', '--segments',
                   told['segments'])['results'][0]
    check(1 < told['segments'] <= row['segments'], told, row)
    close(same['simulated_us'], told['predicted_us'], 0.003)


@tap.case
def parts_by_hosts_need_as_many_ranks_on_each():
    """coll_info and coll_sim say why there is no such candidate."""
    for nranks, ranks_per_host, offered in ((16, 4, True), (15, 4, False)):
        done = subprocess.run(
            [os.path.join(BUILD, 'coll_info'), '--explain', 'allgather',
             '--cluster', 'node:4 (1us 1GB/s)', '-n', str(nranks),
             '--ranks-per-host', str(ranks_per_host), '1M'], env=ENV, text=True,
            capture_output=True, timeout=100, check=True)
        check((' by_hosts ' in done.stdout) == offered, done.stdout)
        check(('as many ranks on each host' in done.stdout) != offered,
              done.stdout)


@tap.case
def every_candidate_is_explained():
    """19 plans or more, by ranks and by hosts, in blocks and dealt."""
    done = subprocess.run(
        [os.path.join(BUILD, 'coll_info'), '--explain', 'allreduce',
         '--cluster', 'rack:2 (2us 1GB/s) node:4 (1us 1GB/s)', '-n', '16',
         '--ranks-per-host', '2', '64K', '--json'], env=ENV, text=True,
        capture_output=True, timeout=100, check=True)
    found = json.loads(done.stdout)['explain']['candidates']
    names = {c['algorithm'] for c in found}
    orders = {c['rank_order'] for c in found}
    check(len(found) == len(names) * len(orders) >= 76, len(found), names)
    check(all(c['predicted_us'] > 0 or c['predicted_us'] == -1 for c in found),
          found)


@tap.case
def one_host_is_served_by_its_memory():
    """As in a job; the ranks of two hosts are not."""
    for nranks, per_host, chosen in ((8, 8, {'node_direct'}),
                                     (8, 4, {'hierarchical'}), (1, 8, None)):
        done = subprocess.run(
            [os.path.join(BUILD, 'coll_info'), '--explain', 'allreduce',
             '--cluster', 'node:2 (2us 1GB/s)', '-n', str(nranks),
             '--ranks-per-host', str(per_host), '1M', '--json'], env=ENV, text=True,
            capture_output=True, timeout=100, check=True)
        found = json.loads(done.stdout)['explain']['candidates']
        named = {c['algorithm'] for c in found if c['chosen']}
        check(named == chosen if chosen else
              not any(name.startswith('node_') for name in named), found)


@tap.case
def what_more_ranks_are_served_by_is_not_explained():
    done = subprocess.run(
        [os.path.join(BUILD, 'coll_info'), '--explain', 'allreduce',
         '--cluster', 'taihulight', '1M'], env=ENV, text=True,
        capture_output=True, timeout=100, check=False)
    check(done.returncode == 2 and done.stdout == ''
          and '40960 ranks' in done.stderr and 'at most 2048' in done.stderr
          and 'coll_sim' in done.stderr, done)


@tap.case
def segments_are_the_best_or_as_asked():
    args = ('allreduce', '--cluster', GROUPS, '-n', 32, '-b', '64M', '--algo',
            'hierarchical', '--order', 'block')
    best = results(*args)['results'][0]
    once = results(*args, '--segments', 1)['results'][0]
    check(once['segments'] == 1 and best['segments'] > 1, once, best)
    check(best['simulated_us'] < once['simulated_us'], once, best)


@tap.case
def every_collective_is_simulated_at_ranges_and_lists_of_ranks():
    every = ('allreduce', 'reduce', 'broadcast', 'reduce_scatter',
             'allgather', 'gather', 'scatter', 'alltoall', 'barrier')
    for name in tap.cases(every, every[::3]):
        found = results(name, '--cluster', FLAT, '-n', '1..6,9', '-b', '64K')
        ranks = [r['nranks'] for r in found['results']]
        check(ranks == [1, 2, 4, 6, 9], name, ranks)
        check(all(r['chosen'] for r in found['results']), name)
        times = [r['simulated_us'] for r in found['results']]
        check(times[0] == 0 and all(t > 0 for t in times[1:]), name, times)


@tap.case
def the_table_marks_what_is_chosen():
    status, out, err = sim('allreduce', '--cluster', FLAT, '-n', 16, '-b',
                           '64K', '--algo', 'all')
    check(status == 0 and not err, err)
    lines = [line.split() for line in out.splitlines()[3:]]
    check(all(line[0] == '16' and line[1] == '64K' for line in lines), out)
    check(out.count('<- chosen') == 1, out)
    check(float(lines[0][6]) == 1, out)


@tap.case
def what_sends_too_much_is_left_out_and_told():
    args = ('allreduce', '--cluster', FLAT, '-n', 32, '-b', '64K',
            '--max-messages', 1000)
    status, out, err = sim(*args, '--algo', 'ring,binomial_tree')
    check(status == 0 and 'binomial_tree' in out and 'ring' not in out, out)
    check(err.count('\n') == 1 and 'ring (given) left out' in err
          and '2e+03' in err, err)
    status, out, err = sim(*args, '--algo', 'ring')
    check(status == 2 and not out, status, out)
    check('--max-messages: found 1000' in err, err)


@tap.case
def pictures_and_tables_appear_whole():
    with tempfile.TemporaryDirectory() as folder:
        png, table = (os.path.join(folder, f) for f in ('a.png', 'a.csv'))
        status, _, err = sim('allreduce', '--cluster', FLAT, '-n', 16, '-b',
                             '1K', '-e', '1M', '--algo', 'all', '--plot', png,
                             '--csv', table)
        check(status == 0, err)
        check(sorted(os.listdir(folder)) == ['a.csv', 'a.png'])
        with open(png, 'rb') as file:
            check(file.read(8) == b'\x89PNG\r\n\x1a\n')
        with open(table, encoding='utf-8') as file:
            lines = file.read().splitlines()
        check(lines[0].startswith('collective,bytes,nranks'), lines[0])
        check(len({line.count(',') for line in lines}) == 1, lines)
        for args in (('-n', '1..16', '-b', '1M'), ('-n', '16'),
                     ('-n', '1', '-b', '1K')):
            status, _, err = sim('allreduce', '--cluster', FLAT, *args,
                                 '--plot', png)
            check(status == 0, err)


@tap.case
def bad_input_is_told_in_one_line():
    fine = ('allreduce', '--cluster', FLAT)
    for args, words in (
            ((), ['found no collective', 'allreduce', 'train']),
            (('alreduce',), ['alreduce', 'did you mean allreduce?']),
            (('allreduce',), ['--cluster', 'missing', 'taihulight']),
            (('allreduce', '--cluster', 'taihulite'),
             ['--cluster', 'taihulite', 'did you mean taihulight?']),
            ((*fine, '-n', '65'),
             ['-n', 'found 65', 'from 1 to 64', '64 hosts']),
            ((*fine, '-n', '0'), ['-n', 'found "0"', 'whole numbers']),
            ((*fine, '-n', '8..4'), ['-n', 'found "8..4"']),
            ((*fine, '-n', '4,'), ['-n', 'found "4,"']),
            ((*fine, '-b', '2K', '-e', '1K'), ['-b', '2048', '1024']),
            ((*fine, '--algo', 'rign'),
             ['--algo', '"rign"', 'did you mean ring?', 'leaders']),
            ((*fine, '--algo', ','.join(['ring@block'] * 65)),
             ['--algo', '65', 'at most 64']),
            ((*fine, '--algo', 'node_direct'),
             ['--algo', 'no plan to simulate']),
            ((*fine, '--algo', 'ring@byhosts'),
             ['--algo', '"byhosts"', 'did you mean by_hosts?']),
            ((*fine, '-n', '8', '--algo', 'ring@by_hosts'),
             ['by_hosts', '--ranks-per-host 1', 'several']),
            (('reduce_scatter', *fine[1:], '-n', '15', '--ranks-per-host', '4',
              '--algo', 'ring@by_hosts'),
             ['by_hosts', '--ranks-per-host 4', 'as many ranks on each']),
            ((*fine, '--order', 'blok'), ['--order', 'did you mean block?']),
            ((*fine, '-n', '1..4', '--plot', 'x.png'),
             ['--plot', '10 lengths and 3']),
            ((*fine, '--json', '/nowhere/x'), ['--json', '/nowhere/x']),
            ((*fine, '--net', 'lenet'), ['--net', 'only valid with train']),
            ((*fine, '--costs'), ['--costs', 'no --algo', '--algo all']),
            (('train', '--cluster', FLAT, '--costs'),
             ['--costs', 'only valid with a collective']),
            (('train', '--cluster', FLAT, '--net', 'lenet'),
             ['--step-ms', 'missing']),
            (('train', '--cluster', FLAT, '--step-ms', '1'),
             ['--net', 'missing']),
            (('train', '--cluster', FLAT, '--net', 'lnet'),
             ['--net', 'did you mean lenet?']),
            (('train', '--cluster', FLAT, '--net', 'lenet', '--step-ms', '1',
              '--tau', '2'), ['--tau', 'sync']),
            (('train', '--cluster', FLAT, '--net', 'lenet', '--step-ms', '1',
              '--strategy', 'sync-easgd2', '--overlap', 'on'),
             ['--overlap', 'found on', 'sync-easgd2 is off']),
            (('train', '--cluster', FLAT, '--net', 'lenet', '--step-ms', '1',
              '--strategy', 'sync-easgd1', '--algo', 'ring'),
             ['--algo', '"ring"', 'valid for broadcast is all, '])):
        status, out, err = sim(*args)
        check(status == 2 and not out, args, status, out)
        check(err.startswith('coll_sim: ') and err.count('\n') == 1, args, err)
        check(all(word in err for word in words), args, err)


@tap.case
def the_environment_may_name_the_cluster():
    env = dict(ENV, COLL_CLUSTER=FLAT)
    status, out, _ = sim('barrier', env=env)
    check(status == 0 and '64 ranks on 64 hosts' in out, out)


LARGE = ('halving_doubling', 'recursive_doubling', 'binomial_tree', 'leaders',
         'hierarchical')


@tap.slow_case
def all_of_taihulight_is_simulated_in_a_minute_and_8_gib():
    for name in LARGE:
        for size in '1K', '512M':
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            found = results('allreduce', '--cluster', 'taihulight', '-n',
                            40960, '-b', size, '--algo', name, '--order',
                            'block', '--threads', 1, timeout=250)
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            # of one core, whatever else the machine does
            seconds = used.ru_utime - before.ru_utime \
                + used.ru_stime - before.ru_stime
            most = used.ru_maxrss
            check(len(found['results']) == 1, found)
            print(f'# {name}, {size}: {seconds:.1f} s, '
                  f'{most / 1048576:.2f} GiB at most so far')
            check(seconds < 60 and most < 8 << 20, name, size)


@tap.slow_case
def a_flat_ring_of_all_of_taihulight_is_refused():
    status, _, err = sim('allreduce', '--cluster', 'taihulight', '-n', 40960,
                         '-b', '512M', '--algo', 'ring', '--order', 'block')
    check(status == 2 and '3.4e+09' in err, err)


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(tap.CASES)))
