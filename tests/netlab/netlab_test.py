#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The network laboratory: that it measures what it says and leaves nothing.

    tests/netlab/netlab_test.py BUILD

Speaks TAP.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import lab as netlab  # noqa: E402

sys.path.insert(0, str(HERE.parent))
import tap  # noqa: E402
from tap import case, expect, of_times  # noqa: E402

SWITCH = pathlib.Path(sys.argv[1]).resolve() / 'delay_switch'
# Rank 0 sends to the last rank what takes a while, and times one byte there and
# back. Prints Mbit/s of contents, the least time in us, and the most Mbit/s of
# 256 KiB that are answered.
STREAM = '''
import os, socket, time
rank, n = int(os.environ["COLL_RANK"]), int(os.environ["COLL_NRANKS"])
where = f"10.77.0.{n}", 7000
if rank == n - 1:
    link, _ = socket.create_server(where).accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(100):
        link.sendall(link.recv(1))
    for _ in range(20):
        link.recv(256 << 10, socket.MSG_WAITALL)
        link.sendall(b"x")
    begin, got = None, 0
    while data := link.recv(1 << 20):
        if begin is None and got > 1 << 20:
            begin, got = time.monotonic(), 0
        got += len(data)
        end = time.monotonic()
    print("rate", got * 8e-6 / (end - begin))
elif rank == 0:
    while True:
        try:
            link = socket.create_connection(where)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for _ in range(100):
        begin = time.monotonic()
        link.sendall(b"x")
        link.recv(1)
        times.append(time.monotonic() - begin)
    print("trip", min(times) * 1e6)
    times = []
    for _ in range(20):
        begin = time.monotonic()
        link.sendall(bytes(256 << 10))
        link.recv(1)
        times.append(time.monotonic() - begin)
    print("message", (256 << 10) * 8e-6 / min(times))
    for _ in range(BLOCKS):
        link.sendall(bytes(256 << 10))
'''


def command(*words):
    return [str(HERE / 'netlab'), '--delay-switch', str(SWITCH), *words]


def netlab_run(*words):
    done = subprocess.run(command(*words), text=True, capture_output=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def measure(*layout, blocks=100):
    """Rate in Mbit/s, trip in us, the counters, rate of single messages."""
    with tempfile.TemporaryDirectory() as folder:
        counters = os.path.join(folder, 'counters.json')
        status, out, err = netlab_run(
            *layout, '--counters', counters, '--', sys.executable, '-c',
            STREAM.replace('BLOCKS', str(blocks)))
        expect(status == 0, err)
        found = dict(line.split()[1:3] for line in out.splitlines())
        print(f'# {" ".join(layout)}: {float(found["rate"]):.0f} Mbit/s, '
              f'{float(found["trip"]):.0f} us, 256 KiB at '
              f'{float(found["message"]):.0f} Mbit/s')
        with open(counters, encoding='utf-8') as file:
            return (float(found['rate']), float(found['trip']),
                    json.load(file), float(found['message']))


def left_over(mark):
    """Numbers of the processes that have the mark in their environment: those
    of one lab, and in its namespaces, which end with the last of them."""
    found = []
    for folder in pathlib.Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError): # it may just end
            if mark.encode() in (folder / 'environ').read_bytes().split(b'\0'):
                found.append(int(folder.name))
    return found


@case
def ranks_are_placed_as_asked():
    show = ['--hosts', '2', '--ranks-per-host', '2', '--', 'bash', '-c',
            'echo $COLL_RANK $(hostname)']
    for place, hosts in (('block', '0011'), ('round_robin', '0101'),
                         ('1,0,1', '101')):
        _, out, _ = netlab_run('--place', place, *show)
        found = sorted(line.split()[1:] for line in out.splitlines())
        expect(''.join(host[-1] for _, host in found) == hosts, place, found)


@case
@of_times
def a_port_keeps_its_rate_for_streams_and_messages():
    rate, _, _, message = measure('--hosts', '2', '--rate', '1Gbit')
    expect(700 < rate < 1000, rate)
    # A bucket of 128 KiB passes at once, the rest at the rate.
    expect(message < 2100, '256 KiB at', message)


@case
@of_times
def a_trunk_keeps_its_rate_and_counts():
    rate, _, counters, _ = measure('--groups', '2', '--rate', '1Gbit',
                                '--trunk-rate', '250Mbit', blocks=60)
    trunk, = counters['trunks']
    expect(180 < rate < 260, rate)
    expect(trunk['forth']['bytes'] > 60 << 18 > 10 * trunk['back']['bytes'],
           trunk)


@case
@of_times
def the_delay_switch_keeps_rate_and_delay_and_counts():
    rate, trip, counters, _ = measure(
        '--groups', '2', '--rate', '1Gbit', '--trunk-rate', '250Mbit',
        '--delay', '1ms', '--trunk-delay', '2ms', blocks=60)
    trunk, = counters['trunks']
    expect(150 < rate < 260, rate)
    expect(6000 <= trip < 9000, trip)
    expect(trunk['forth']['bytes'] > 60 << 18 > 10 * trunk['back']['bytes'],
           trunk)


@case
@of_times
def a_rate_changes_when_a_file_appears():
    with tempfile.TemporaryDirectory() as folder:
        # The last rank asks before it listens, so all is sent afterwards.
        ask = (f'import os, time\nif os.environ["COLL_RANK"] == "3":\n'
               f'    open("{folder}/slow", "w").close()\n'
               f'    while os.path.exists("{folder}/slow"): time.sleep(.01)\n')
        status, out, err = netlab_run(
            '--groups', '2', '--rate', '1Gbit', '--trunk-rate', '1Gbit',
            '--when', f'{folder}/slow:trunk0=100Mbit', '--', sys.executable,
            '-c', ask + STREAM.replace('BLOCKS', '40'))
    expect(status == 0, err)
    found = dict(line.split()[1:3] for line in out.splitlines())
    expect(70 < float(found['rate']) < 104, found)


@case
def a_wire_that_is_not_there_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        status, _, err = netlab_run(
            '--hosts', '2', '--when', f'{folder}/slow:trunk0=1Mbit', '--',
            'bash', '-c', f'touch {folder}/slow; sleep 0.2')
    expect(status == 1 and '0 for host0, host1' in err, status, err)


@case
def groups_of_groups_reach_each_other():
    measure('--groups', '2x2', '--delay', '100us', blocks=20)
    measure('--groups', '2x2', blocks=20)
    measure('--hosts', '6', '--groups', '3', blocks=20)


@case
def sixteen_hosts_reach_each_other():
    measure('--hosts', '16', '--delay', '100us', blocks=20)


@case
def a_failed_rank_is_told():
    status, _, err = netlab_run('--hosts', '2', '--', 'bash', '-c',
                                'exit $((COLL_RANK * 3))')
    expect(status == 1 and 'rank 1 on host1 ended with 3' in err, status, err)


@case
def a_timeout_ends_all():
    begin = time.monotonic()
    status, _, _ = netlab_run('--timeout', '2', '--', 'sleep', '100')
    expect(status in (1, 124), status)
    expect(time.monotonic() - begin < 10, 'not in time')


@case
def nothing_is_left_however_it_ends():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        mark = f'NETLAB_TEST={uuid.uuid4()}'
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                command('--hosts', '3', '--delay', '1ms', '--', 'bash', '-c',
                        f'trap "" TERM; touch {folder}/$COLL_RANK; '
                        'sleep 100 & wait; sleep 100'),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=dict(os.environ, **dict([mark.split('=')]))) as lab:
            end = time.monotonic() + 30
            while len(os.listdir(folder)) < 3 and time.monotonic() < end:
                time.sleep(0.05)
            # The lab, its first process, the delay switch, and three shells.
            expect(len(left_over(mark)) >= 6, 'it did not start')
            lab.send_signal(number)
            lab.wait(20)
        end = time.monotonic() + 10
        while left_over(mark) and time.monotonic() < end:
            time.sleep(0.05)
        expect(not left_over(mark), f'signal {number} leaves', left_over(mark))


def main():
    # As netlab itself finds out; a kernel may forbid what root may do.
    why = netlab.missing()
    if not why and not os.path.exists('/dev/net/tun'):
        why = 'no /dev/net/tun here'
    if not why:
        status, _, err = netlab_run('--hosts', '2', '--', 'true')
        why = err.strip() if status == 77 else None
    if why:
        print(f'1..0 # SKIP {why}')
        return 0
    return tap.run()


if __name__ == '__main__':
    sys.exit(main())
