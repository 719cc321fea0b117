#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every collective, dtype, op, in place or not, at lengths around the number of
ranks and a long one: right on 1 to 5, 7, 9 and 16 ranks, by shared memory, by plans
over it, by UCX, and by every algorithm's plans on the simulator.

    tests/matrix_test.py BUILD

Speaks TAP. TESTS_THOROUGH=1 takes all these numbers of ranks and the long
vectors: beyond 5 ranks and on the simulator for sums of f32 and i64, averages of
bf16 and maxima of u8, and for f32 and i64 that are only moved; by plans over
shared memory and on the simulator on up to 5 ranks.
"""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Wrong, expect  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
RANKS = tap.cases([*range(1, 6), 7, 9, 16], [3])
LONG = tap.cases("200003", "0")


def rules_for_plans():
    """COLL_ALGO that forbids of every collective what has no plan."""
    table = subprocess.run([BUILD / "coll_info", "--algorithms"], text=True,
                           stdout=subprocess.PIPE, check=True).stdout
    rows = [line.split()[:2] for line in table.splitlines()]
    return ";".join(f"{collective}:^{name}" for collective, name in rows
                    if name.startswith("node_"))


WAYS = {  # its settings, and up to how many ranks it takes long ones
    "shared memory": ({"COLL_TRANSPORT": "shm"}, 16),
    "plans over shared memory": ({
        "COLL_TRANSPORT": "shm", "COLL_ALGO": rules_for_plans()}, 5),
    "ucx": ({"COLL_TRANSPORT": "ucx"}, 16),
}


def right(settings, *command):
    env = {k: v for k, v in os.environ.items() if not k.startswith("COLL_")}
    env.update(settings, COLL_STORE="off")
    try:
        done = subprocess.run(command, env=env, text=True, capture_output=True,
                              timeout=240)
    except subprocess.TimeoutExpired as error:
        raise Wrong("no end within 240 s") from error
    expect(done.returncode == 0 and done.stdout.endswith(" 0 wrong\n"),
           "status", done.returncode, done.stdout, done.stderr[-800:])


def cases():
    for ranks in RANKS:
        said = f"{ranks} rank{'s' * (ranks > 1)}"
        for way, (settings, most) in WAYS.items():
            long = LONG if ranks <= most else "0"
            yield (f"{said} by {way}",
                   lambda n=str(ranks), s=settings, count=long: right(
                       s, BUILD / "collrun", "-n", n, BUILD / "matrix", count))
        yield f"{said} on the simulator", lambda n=ranks: right(
            {}, BUILD / "matrix_sim", str(n), LONG if n <= 5 else "0")


if __name__ == "__main__":
    sys.exit(tap.run(tap.chosen(list(cases()))))
