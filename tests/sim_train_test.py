#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""coll_sim train from outside: what is summed, what hides, what it takes.

Usage: sim_train_test.py BUILD_DIR [WORD...]; prints TAP, as sim_test.py does.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'benchmarks', 'papers'))
import nets  # noqa: E402
import tap  # noqa: E402
from sim_kit import (  # noqa: E402
    ALPHA, BETA, FLAT, check, close, closed_forms, results, sim)

# The contract with scripts: names may be added, never changed.
TRAIN_KEYS = {'nranks', 'tau', 'algorithm', 'rank_order', 'segments',
              'buckets', 'exchange_ms', 'exposed_ms', 'step_ms', 'speedup',
              'efficiency', 'comm_share'}


def train(*args):
    found = results('train', '--cluster', FLAT, *args)
    check(found['format'] == 'coll_sim train 1', found['format'])
    for row in found['results']:
        check(TRAIN_KEYS <= row.keys(), TRAIN_KEYS - row.keys())
        close(row['speedup'], row['nranks'] * row['efficiency'], 1e-12)
        close(1 - row['comm_share'], row['efficiency'], 1e-9)
    return found


@tap.case
def gradients_of_a_net_are_four_bytes_a_parameter():
    for path in nets.NETS.glob('*.net'):
        found = train('--net', path.stem, '--step-ms', 100, '-n', 2, '--algo',
                      'ring')
        check(found['gradient_bytes'] == 4 * sum(nets.tensors(path.stem)), path)
    check(sum(nets.tensors('alexnet')) == 60965224, 'alexnet has groups')


@tap.case
def without_overlap_a_step_is_the_sum():
    row = train('--net', 'lenet', '--step-ms', 30, '-n', 64, '--algo', 'ring',
                '--overlap', 'off', '--bucket', '1G', '--gamma',
                0)['results'][0]
    wanted = closed_forms(64, 4 * 431080, 0)['ring'] * 1e3
    check(row['buckets'] == 1, row)
    close(row['exposed_ms'], wanted, 1e-4) # 64 does not divide the vector
    close(row['step_ms'], 30 + row['exchange_ms'], 1e-12)


@tap.case
def buckets_hide_behind_the_backward_pass():
    """Four buckets of 1 MB: exposed is the last one, or where the network is
    slower than the backward pass, all but what fits beside it."""
    args = ('--bytes', 4000000, '--bucket', 1000000, '-n', 2, '--algo',
            'recursive_doubling', '--gamma', 0)
    each = 1e-3 + 1e-3 * 1e3 * 1e-3 * 1e3 # 1 us + 1 MB at 1 GB/s, in ms
    row = train(*args, '--step-ms', 30)['results'][0]
    check(row['buckets'] == 4, row)
    close(row['exposed_ms'], each, 1e-9)
    row = train(*args, '--step-ms', 3)['results'][0]
    close(row['exposed_ms'], 1.5 + 4 * each - 3, 1e-9) # the first is at 1.5
    row = train(*args, '--step-ms', 3, '--overlap', 'off')['results'][0]
    close(row['exposed_ms'], 4 * each, 1e-9)


@tap.case
def efficiency_with_a_period_is_that_of_the_model():
    """c / (c + m / tau): 81.01 % at tau = 8 goes with 34.8 % at tau = 1."""
    n = 1000000
    exchange_ms = 1e-3 + n * BETA * 1e3
    rows = train('--bytes', n, '--strategy', 'decentralized-easgd', '--tau',
                 '1..16', '-n', 2, '--algo', 'recursive_doubling', '--gamma',
                 0, '--overlap', 'off', '--step-ms',
                 exchange_ms / 1.875)['results']
    found = {r['tau']: 100 * r['efficiency'] for r in rows}
    wanted = {1: 34.8, 2: 51.6, 4: 68.1, 8: 81.0, 16: 89.5}
    check(found.keys() == wanted.keys(), found)
    for tau, percent in wanted.items():
        check(abs(found[tau] - percent) < 0.06, found, wanted)
    rows = train('--bytes', n, '--strategy', 'decentralized-easgd', '--tau',
                 '1..16', '-n', 2, '--algo', 'recursive_doubling', '--gamma',
                 0, '--step-ms', exchange_ms)['results']
    check(all(r['exposed_ms'] < 1e-9 for r in rows), rows)


@tap.case
def each_elastic_strategy_exchanges_and_hides_what_it_does():
    """On 8 ranks by trees: 1 broadcasts and reduces, 3 rounds each; 2 and 3
    double in 3 rounds, of which 3 hides what a step takes."""
    n, step = 1000000, 2.5
    round_ms = 1e-3 + n * BETA * 1e3
    for name, algo, rounds, hidden in (
            ('sync-easgd1', 'binomial_tree', 6, 0),
            ('sync-easgd2', 'recursive_doubling', 3, 0),
            ('sync-easgd3', 'recursive_doubling', 3, step),
            ('decentralized-easgd', 'recursive_doubling', 3, step)):
        for tau in 1, 4:
            row = train('--bytes', n, '--strategy', name, '--tau', tau, '-n',
                        8, '--algo', algo, '--gamma', 0, '--step-ms',
                        step)['results'][0]
            close(row['exchange_ms'], rounds * round_ms, 1e-9, name)
            close(row['exposed_ms'], (rounds * round_ms - hidden) / tau, 1e-9,
                  name, tau)
            check(row['algorithm'] == algo, row)


@tap.case
def elastic_sums_are_made_in_pairs():
    """As coll_train has them: of 5 ranks, which do not halve, by all to all a
    fifth twice, or all of it once."""
    def algorithm(name, ranks, n):
        row = train('--bytes', n, '--strategy', name, '-n', ranks, '--gamma', 0,
                    '--step-ms', 2.5)['results'][0]
        return row['algorithm'], row['exchange_ms']

    n = 1000000
    for ranks, expected in (8, 'halving_doubling_near'), (5, 'in_order_scatter'):
        rounds = 2 if ranks == 5 else 6
        for name in 'sync-easgd2', 'sync-easgd3', 'decentralized-easgd':
            found, ms = algorithm(name, ranks, n)
            check(found == expected, name, found)
            close(ms, 1e3 * (rounds * ALPHA + 2 * (ranks - 1) / ranks * n * BETA),
                  1e-3, name)
    check(algorithm('sync-easgd2', 5, 64)[0] == 'in_order')
    check(algorithm('sync-easgd1', 8, n)[0].endswith('+in_order'))
    tree = 2 * (ALPHA + 64 * BETA) * 3  # of the centre, and of the sum
    row = train('--bytes', 64, '--strategy', 'sync-easgd1', '-n', 8, '--gamma',
                0, '--algo', 'binomial_tree', '--step-ms', 2.5)['results'][0]
    close(row['exchange_ms'], 1e3 * tree, 1e-9)
    check('in_order' not in algorithm('sync', 5, n)[0])


@tap.slow_case
def many_ranks_average_in_nearly_the_time_of_exact_rates():
    n, ranks = 1000003, 136
    exact = results('allreduce', '--cluster', 'taihulight', '-n', ranks, '-b',
                    n, '--algo', 'in_order_scatter')['results'][0]
    row = results('train', '--cluster', 'taihulight', '-n', ranks, '--bytes', n,
                  '--strategy', 'sync-easgd2', '--step-ms', 1, '--algo',
                  'in_order_scatter')['results'][0]
    check(row['algorithm'] == 'in_order_scatter', row)
    close(1e3 * row['exchange_ms'], exact['simulated_us'], 1e-3)


@tap.slow_case
def what_sends_too_many_messages_is_no_choice():
    """What is tried, beyond what has prices, is what can be simulated."""
    row = results('train', '--cluster', 'taihulight', '-n', 2080, '--bytes',
                  1000000, '--strategy', 'sync-easgd2', '--step-ms', 1,
                  '--max-messages', 1000000)['results'][0]
    check(row['algorithm'] == 'binary_blocks', row)


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(tap.CASES)))
