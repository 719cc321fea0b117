#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A rank that gives up is named by all, with its reason; its status is the job's.

    tests/refuse_test.py BUILD [WORD...]

In each case one rank alone finds something wrong once all have joined, or while
they do. It runs over and over, as what is tested is that it does not matter who
ends first. Two hosts are network namespaces, which takes root. Speaks TAP.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent / 'netlab'))
import inside  # noqa: E402
from inside import tap  # noqa: E402
import lab as netlab  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
TIMES = tap.cases(6, 2)
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith('COLL_') or k == 'COLL_RECORDER'}

TRAIN = 'coll_train --net lenet --data synthetic --steps 2 --batch 4'
BENCH = 'coll_bench allreduce -b 8 -e 64 -n 2 -w 1'
# Which rank refuses; what its shell does before; the program; its exit status;
# what its sentence has. Rank -1 is the last one.
REFUSALS = {
    'a log that rank 0 cannot write':
        (0, '', TRAIN + ' --log none/log', 2, '--log: none/log'),
    'a checkpoint that the last rank lacks':
        (-1, 'ADD="--resume none"', TRAIN + ' $ADD', 2, '--resume: none'),
    'a baseline that rank 0 cannot read':
        (0, '', BENCH + ' --baseline none', 2, 'none'),
    'an option that one rank of coll_bench has':
        (1, 'ADD="-r 77"', BENCH + ' $ADD', 2, '-r: found 77'),
    'memory that one rank lacks':
        (1, 'ADD="-e 64G"; ulimit -v 4000000',
         BENCH + ' --memory malloc $ADD', 1, 'no memory for'),
    'room for a thread that the last rank lacks when it joins':
        (-1, 'ulimit -s 8000000; ulimit -v 1000000', BENCH, 1,
         "cannot start the link's thread"),
}


@functools.cache
def starts_in_little_memory():
    """Not under the address sanitizer, which reserves terabytes."""
    return subprocess.run(
        ['sh', '-c', f'ulimit -v 1000000; exec {BUILD}/coll_bench --version'],
        capture_output=True, check=False).returncode == 0


def refuse(where, nranks, rank, before, words, status, sentence):
    """One job; where: of collrun, the hosts."""
    if 'ulimit -v' in before and not starts_in_little_memory():
        raise tap.Skip('the programs do not start below a limit of memory')
    victim = rank % nranks
    script = (f'[ $COLL_RANK = {victim} ] && {{ {before or ":"}; }}; '
              f'exec {BUILD}/{words}')
    done = subprocess.run([BUILD / 'collrun', *where, 'sh', '-c', script],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=ENV, timeout=60, check=False)
    lines = done.stderr.splitlines()
    own = [line for line in lines if not line.startswith('collrun: ')]
    of_collrun = [line for line in lines if line not in own]
    tap.expect(done.returncode == status, 'status', done.returncode,
               'instead of', status, lines)
    tap.expect(any(sentence in line for line in own), 'no', sentence, lines)
    for line in own:
        told = re.search(r': rank (\d+) \(host', line)
        tap.expect(sentence in line, 'a line without the reason:', lines)
        tap.expect(not told or int(told[1]) == victim, 'another rank:', lines)
    tap.expect(f'rank {victim} on ' in of_collrun[0]
               and f'exited with status {status}' in of_collrun[0], lines)
    tap.expect(len(of_collrun) <= 3, 'collrun repeats itself:', lines)


def on_one_host(nranks, what):
    for _ in range(TIMES):
        refuse(['-n', str(nranks)], nranks, *what)


def on_two_hosts(nranks, what):
    lab = netlab.Lab(netlab.Layout(hosts=2))
    try:
        hosts = ','.join(f'{lab.name(h)}:{nranks // 2}' for h in range(2))
        for _ in range(TIMES):
            refuse(['--hosts', hosts, '--rsh', lab.agent], nranks, *what)
    finally:
        lab.close()


def cases(run, where):
    return [(f'{name}, {nranks} ranks on {where}',
             functools.partial(run, nranks, what))
            for name, what in REFUSALS.items() for nranks in (2, 4)]


def main():
    chosen = cases(on_one_host, 'one host')
    if not tap.THOROUGH:
        return tap.run(tap.chosen(chosen))
    chosen += cases(on_two_hosts, 'two hosts')
    return inside.run(chosen)


if __name__ == '__main__':
    sys.exit(main())
