#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Collectives of one host: that they are right on machines with few rights.

    tests/node_test.py BUILD

Speaks TAP. TESTS_THOROUGH=1 runs more random operations.
"""
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip, Wrong, case, expect  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
OPERATIONS = tap.cases(200000, 12000)
MACHINES = {  # and the groups of 16 ranks on each, as levels_test has them
    "ft2000plus": "8 groups of 2 (numa) / 1 group of 8 (machine)",
    "server_2x32":
        "8 groups of 2 (cache) / 2 groups of 4 (package) / 1 group of 2",
    **tap.cases({  # in fours, too
        "mt2000plus": "4 groups of 4 (numa) / 1 group of 4 (machine)",
        "knl_snc4": "4 groups of 4 (numa) / 1 group of 4 (machine)",
        "server_4x48": "4 groups of 4 (package) / 1 group of 4 (machine)",
    }, {}),
}


def run(command, seconds=60, **settings):
    """Output and messages of a command that has to succeed. Its memory is counted,
    so malloc is as it is by itself, which tests/run changes."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("COLL_", "MALLOC_TRIM_", "MALLOC_MMAP_", "GLIBC_"))}
    env.update({k: str(v) for k, v in settings.items()})
    try:
        done = subprocess.run([str(c) for c in command], env=env, text=True,
                              capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"no end within {seconds} s") from error
    expect(done.returncode == 0, "status", done.returncode, done.stderr[:800])
    return done.stdout, done.stderr


def ranks(n, program, *arguments, before=(), **settings):
    return run([*before, BUILD / "collrun", "-n", n, BUILD / program,
                *arguments], **settings)


def warned(err, words):
    """One line on stderr, and it says this."""
    lines = [line for line in err.splitlines() if "coll" in line.lower()
             or words in line]
    expect(any(words in line for line in lines), f'no "{words}" in:', err)
    return lines


@case
def random_operations_never_give_a_wrong_sum():
    for n in (1, 2, 3, 4):
        out, _ = ranks(n, "soak", OPERATIONS // n, n)
        expect("ok" in out, out)


@case
def long_vectors_of_both_kinds_of_memory_are_right():
    for n in tap.cases((2, 3, 5), (2, 3)):
        ranks(n, "soak", tap.cases(150, 20), n, 1500000)


@case
def sixteen_ranks_on_machines_that_are_not_here():
    for machine, groups in MACHINES.items():
        out, err = ranks(16, "soak", tap.cases(1000, 100), 7,
                         COLL_CLUSTER="machine:" + machine,
                         COLL_LOG="shm:info")
        expect("ok" in out, out)
        line = warned(err, "small collectives: 16 ranks: ")
        expect(any(groups in text for text in line), machine, err)


BOARD = "package:2 [numa] l3:2 core:4 pu:1"
QUARTERS = "package:2 group:2 [numa] l3:2 core:4 pu:1"
NESTS = [  # machine, ranks, and the levels of near_checks
    ("package:1 group:2 [numa] core:2 pu:1", 4, "- - - 2x2"),
    *tap.cases([
        (BOARD, 12, "3x2x2"),
        (BOARD, 7, "-"),  # packages have 4 and 3
        (BOARD, 8, "4x2 4x2 4x2 2x2x2"),  # two in a cache need no level
        ("package:3 [numa] l3:2 core:2 pu:1", 12, "4x3 - 4x3 2x2x3"),
        (BOARD, 14, "7x2"),  # caches have 4 and 3
        (QUARTERS, 16, "4x2x2 4x2x2 4x2x2 2x2x2x2"),
        (QUARTERS, 24, "3x2x2x2 3x4x2 3x4x2 3x2x2x2"),
        ("package:2 group:2 [numa] l3:1 core:2 pu:1", 8, "2x2x2 - 2x2x2"),
        ("package:2 [numa] l3:3 core:2 pu:1", 12, "6x2 6x2 6x2 2x3x2"),
        ("package:2 [numa] l3:3 core:3 pu:1", 18, "3x3x2"),
        ("package:3 [numa] l3:2 core:3 pu:1", 18, "3x2x3"),
        ("machine:server_1x32", 16, "4x4 - 4x4"),
        ("machine:server_2x32", 20, "10x2"),
        ("machine:ft2000plus", 16, "- - - 2x8"),
    ], []),
]


@case
def long_vectors_by_groups_on_machines_that_are_not_here():
    for machine, n, levels in NESTS:
        ranks(n, "near_checks", *levels.split(), COLL_CLUSTER=machine)
    ranks(8, "near_checks", *"- - - 2x2x2".split(), COLL_CLUSTER=BOARD,
          COLL_DETERMINISM="layout")


@tap.slow_case
def random_long_vectors_by_groups():
    for machine, n in ((BOARD, 12), (QUARTERS, 24), (BOARD, 13),
                       ("machine:server_2x32", 20)):
        ranks(n, "soak", 30, 20, 600000, COLL_CLUSTER=machine)


@case
def where_the_kernel_denies_reading_other_processes():
    probe = subprocess.run([str(BUILD / "deny"), "true"], check=False)
    if probe.returncode == 77:
        raise Skip("no seccomp")
    out, err = ranks(3, "soak", tap.cases(400, 130), 5, 800000,
                     before=[BUILD / "deny"],
                     COLL_LOG="shm:warn")
    expect("ok" in out, out)
    lines = warned(err, "may not read each other's memory")
    expect(len(lines) == 1 and "coll_mem_alloc()" in lines[0], err)


@case
def the_setting_that_forbids_it_does_the_same():
    ranks(3, "soak", tap.cases(300, 100), 5, 800000, COLL_SINGLE_COPY="off")
    done = subprocess.run([str(BUILD / "collrun"), "-n", "2",
                           str(BUILD / "soak"), "1"],
                          env=dict(os.environ, COLL_SINGLE_COPY="of"),
                          text=True, capture_output=True, timeout=60)
    expect(done.returncode != 0 and "COLL_SINGLE_COPY=of" in done.stderr
           and "off" in done.stderr, done.returncode, done.stderr)


@case
def dev_shm_of_64_kilobytes():
    script = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'
    before = ["unshare", "--mount", "sh", "-c", script, "sh"]
    try:
        run([*before, "true"])
    except (Wrong, OSError) as error:
        raise Skip("no right to mount") from error
    out, _ = ranks(4, "soak", tap.cases(300, 100), 5, 800000, before=before)
    expect("ok" in out, out)


@case
def small_limits():
    for limit in ("-n 32", "-l 0"):
        out, _ = ranks(4, "soak", tap.cases(300, 100), 5, 800000,
                       before=["bash", "-c", f'ulimit {limit} && exec "$@"',
                               "bash"])
        expect("ok" in out, limit, out)


@case
def who_waits_for_a_sleeper_sleeps():
    for attempt in range(3):  # other work on the machine counts as ours
        with contextlib.suppress(Wrong):
            ranks(2, "node_checks", "sleeper")
            ranks(4, "node_checks", "sleeper")
            return
    ranks(4, "node_checks", "sleeper")


@case
def an_allreduce_moves_two_bytes_per_byte():
    for n in (2, 3, 4):
        ranks(n, "node_checks", "bytes")


@case
def parts_are_moved_once_and_by_all():
    for n in tap.cases((1, 2, 3, 5), (2, 3)):
        ranks(n, "node_checks", "parts", 0)
        ranks(n, "node_checks", "parts", 1)


@case
def bf16_is_rounded_once():
    for n in (2, 5, 8):
        ranks(n, "node_checks", "bf16")


@case
def registered_memory_is_reached_in_place():
    for n in (1, 2, 3):
        ranks(n, "node_checks", "registered")
        ranks(n, "node_checks", "registered", "1200000")


@case
def blocks_of_shared_memory_come_and_go():
    ranks(3, "node_checks", "blocks")
    ranks(3, "node_checks", "many")


@case
def communicators_come_and_go_without_a_trace():
    shm = set(os.listdir("/dev/shm"))
    ranks(2, "node_checks", "cycles", tap.cases(60, 15))
    left = {f for f in set(os.listdir("/dev/shm")) - shm
            if re.search("coll|ucx", f)}
    for _ in range(100):  # those of tests beside this one go
        if not left:
            return
        time.sleep(0.1)
        left &= set(os.listdir("/dev/shm"))
    expect(not left, left)


if __name__ == "__main__":
    sys.exit(tap.run())
