#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs with habits of their own, which libcoll must leave alone: a handler of
SIGSEGV, children, libraries loaded and unloaded, another malloc().

    tests/hosting_test.py BUILD LIBRARY SANITIZER

Speaks TAP.
"""
import ctypes.util
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Skip, Wrong, expect  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
LIBRARY = pathlib.Path(sys.argv[2]).resolve()
HABITS = {
    "handler": "a handler of SIGSEGV stays the program's",
    "fork": "children of a rank and the rank go on",
    "dlopen": "the library is loaded and unloaded twice",
}


def undisturbed(habit, transport, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("COLL_")}
    # What UCX leaves is not suppressed once its libraries are unloaded.
    options = [env.get("ASAN_OPTIONS"), "detect_leaks=0"]
    env.update(more, COLL_TRANSPORT=transport, COLL_STORE="off",
               ASAN_OPTIONS=":".join(filter(None, options)))
    try:
        done = subprocess.run(
            [BUILD / "collrun", "-n", "3", BUILD / "hosting", habit, LIBRARY],
            env=env, text=True, capture_output=True, timeout=30)
    except subprocess.TimeoutExpired as error:
        raise Wrong("no end within 30 s") from error
    expect(done.returncode == 0 and done.stdout == "ok\n",
           "status", done.returncode, done.stdout, done.stderr[-800:])


def with_jemalloc():
    library = ctypes.util.find_library("jemalloc")
    if not library:
        raise Skip("libjemalloc2 is not installed")
    if sys.argv[3] != "none":
        raise Skip("the sanitizer has a malloc() of its own")
    for habit in HABITS:
        undisturbed(habit, "auto", LD_PRELOAD=library)


def cases():
    for habit, claim in HABITS.items():
        for transport in ("shm", "ucx"):
            yield (f"{claim}, by {transport}",
                   lambda h=habit, t=transport: undisturbed(h, t))
    yield "all of it with another malloc()", with_jemalloc


if __name__ == "__main__":
    sys.exit(tap.run(list(cases())))
