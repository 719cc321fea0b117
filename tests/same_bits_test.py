#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""COLL_DETERMINISM=full: sums have the same bits whichever algorithm runs,
wherever the ranks are, in whichever order they come, however calls are cut and
grouped. Those of the sum in pairs, which a rank computes alone; by their
SHA-256.

    tests/same_bits_test.py BUILD

Speaks TAP. TESTS_THOROUGH=1 takes 6 permutations of the ranks over three hosts,
by shared memory with UCX between hosts, two of them by UCX alone too, of f32,
f64, f16 and bf16; beside them averages and products, hosts with runs of ranks,
and ranks of one host, also in groups of its processors."""
import collections
import hashlib
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Wrong, expect  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RINGS = ['16K', '32K', '64K', '128K', '1M']  # bytes of a pair's shared memory
HEAD = re.compile(rb'([^\t]*)\t([^\t]*)\t(\d+) bytes\n')


def permutations():
    """Of six ranks over three hosts; no two alike."""
    chance, hosts, found = random.Random(6), list('000112'), []
    while len(found) < tap.cases(6, 1):
        chance.shuffle(hosts)
        if ''.join(hosts) not in found:
            found.append(''.join(hosts))
    return found


def read(path, digests):
    """Adds the SHA-256 of each result: {what: {digest: how it was made}}."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        head = HEAD.match(data, at)
        end = head.end() + int(head[3])
        digest = hashlib.sha256(data[head.end():end]).hexdigest()
        how = f'{head[2].decode()}, rank {path.name}'
        digests[head[1].decode()].setdefault(digest, []).append(how)
        at = end


def job(hosts, dtypes, ops, **settings):
    """The digests of all results, and how many algorithms gave some of every
    dtype, of f32 and f64 only, and none."""
    env = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}
    env.update({f'COLL_{k.upper()}': v for k, v in settings.items()},
               COLL_STORE='off', COLL_RECORDER='off', COLL_CALIBRATE='off',
               UCX_HANDLE_ERRORS='none')
    digests = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as folder:
        command = [BUILD / 'same_bits_job', folder, hosts, dtypes, ops]
        try:
            done = subprocess.run(list(map(str, command)), env=env, text=True,
                                  capture_output=True, timeout=60)
        except subprocess.TimeoutExpired as error:
            raise Wrong('no end within 60 s') from error
        expect(done.returncode == 0, done.stderr[-800:])
        for rank in range(len(hosts)):
            read(pathlib.Path(folder) / str(rank), digests)
    expect(len(digests) == dtypes * ops, list(digests))
    return digests, *map(int, re.findall(r'\d+', done.stdout))


ALWAYS = {}  # what: the only digest, in all jobs on as many ranks


def same(hosts, algorithms, in_pairs=None, ops=1, **settings):
    """All digests are those of the sum by hand, in every job alike. in_pairs: how
    many algorithms; None: it depends on how the ranks happen to stand."""
    digests, served, long_only, refused = job(hosts, tap.cases(4, 2), ops,
                                              determinism='full', **settings)
    expect(served == algorithms and in_pairs in (None, long_only)
           and refused > 10, served, long_only, 'and', refused)
    for what, found in digests.items():
        expect(len(found) == 1, what, *(
            f'\n{digest[:16]}: {len(how)}, such as {how[0]}'
            for digest, how in found.items()))
        digest = ALWAYS.setdefault((len(hosts), what), *found)
        expect([digest] == list(found), what, 'as in no job before')


def some_differ(hosts, **settings):
    """Or the tests above could not fail."""
    digests, served, _, _ = job(hosts, tap.cases(4, 1), 1, determinism='off',
                             **settings)
    for what, found in digests.items():
        expect(len(found) >= 5, what, 'by', served, 'algorithms:', len(found),
               'digests')


def cases():
    for i, hosts in enumerate(permutations()):
        ring = RINGS[i % len(RINGS)]
        yield (f'full on hosts {hosts}, rings of {ring}',
               lambda h=hosts, r=ring: same(h, 4, shm_ring=r))
        if i % 3 == 0:
            yield (f'full on hosts {hosts} by UCX',
                   lambda h=hosts: same(h, 4, transport='ucx'))
    # halving by neighbours, blocks, trees; on two hosts all that keep the order
    yield 'full on one host', lambda: same('000000', 10, 4)
    yield 'full on two hosts with runs', lambda: same('0011', 4, 17)
    if tap.cases(True, False):
        machine = 'machine:ft2000plus'
        for hosts, n, by_ucx in (('001122', 5, 4), ('000112', 4, 4),
                                 ('010101', 3, 3), ('00001111', 17, 5),
                                 ('0123', 5, 5), ('01234', 3, 3)):
            yield (f'full, averages and products on hosts {hosts}',
                   lambda h=hosts, n=n: same(h, 4, n, 3))
            yield (f'and by UCX on hosts {hosts}',
                   lambda h=hosts, n=by_ucx: same(h, 4, n, 3,
                                                  transport='ucx'))
        racks = 'rack:2 (9us 1GB/s shared) host:2 (1us 10GB/s)'
        yield ('full on hosts in groups', lambda: same('00112233', 4, 5, 3,
                                                       cluster=racks))
        yield 'the same on one host', lambda: same('000000', 10, 4, 3)
        yield ('and by UCX', lambda: same('000000', 4, 4, 3, transport='ucx'))
        yield ('full in groups of a host',
               lambda: same('0' * 16, 10, 5, cluster=machine))
        yield ('off in groups of a host, some differ',
               lambda: some_differ('0' * 16, cluster=machine))
        yield 'off on one host, some differ', lambda: some_differ('000000')
    yield 'off on hosts 0011, some differ', lambda: some_differ('0011')


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(list(cases()))))
