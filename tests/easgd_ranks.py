#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks that learn apart: usage easgd_ranks.py BUILD_FOLDER.

A job of any strategy that is killed and resumed ends with the bytes of one that
was not; strategies that should give the same bits do; a rank that dies ends the
job; checkpoints that do not fit are refused. TESTS_THOROUGH=1 takes all
strategies.
"""
import json
import os
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from processes import ranks_of  # noqa: E402
from training_ranks import (BUILD, ENV, FOLDER, NET, TRAIN,  # noqa: E402
                            check, command, distance, export, read, train)
import training_ranks  # noqa: E402

WAYS = ["sync-easgd1", "sync-easgd2", "sync-easgd3", "decentralized-easgd",
        "decentralized-easgd --centre sharded",
        "decentralized-easgd --centre hierarchical"]
THOROUGH = "TESTS_THOROUGH" in os.environ
SOME = WAYS if THOROUGH else [WAYS[0], WAYS[4]]


def strategy(way):
    return ["--strategy", *way.split()]


def path(name):
    return os.path.join(FOLDER.name, name)


def steps_of(checkpoint):
    """Steps that the run had done."""
    data = read(checkpoint)
    text = struct.unpack("<Q", data[16:24])[0]
    return struct.unpack("<Q", data[72 + text:80 + text])[0]


def same_bits():
    first = None
    for way in WAYS[:3]:
        file = path("same.ckpt")
        train(3, file, "--steps", "40", "--tau", "2", "--global-batch", "30",
              *strategy(way))
        tensors = export(file)
        first = first or tensors
        check(f"{way}: 3 ranks give the centre's bits", tensors == first)


def kill_one(nranks, *options):
    """Kills the last rank once there is a checkpoint. Returns what is said."""
    job = subprocess.Popen(command(nranks, "--steps", "1000000", *options),
                           env=ENV, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    file = options[options.index("--checkpoint") + 1]
    while not os.path.exists(file) and job.poll() is None \
            and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)  # so that the checkpoint may be a later one
    os.kill(ranks_of(job.pid)[-1], 9)
    errors = job.communicate(timeout=60)[1]
    return job.returncode, errors


def killed_and_resumed():
    for way in SOME:
        broken, whole = path("broken.ckpt"), path("whole.ckpt")
        if os.path.exists(broken):
            os.remove(broken)
        options = [*strategy(way), "--tau", "3", "--checkpoint-every", "7"]
        status, errors = kill_one(2, "--checkpoint", broken, *options)
        check(f"{way}: a killed rank ends the job",
              status != 0 and "killed by signal 9" in errors, repr(errors))
        steps = steps_of(broken)
        end = ["--steps", str(steps + 10)]
        train(2, broken, *options, *end, "--resume")
        train(2, whole, *options, *end)
        check(f"{way}: killed, resumed after step {steps}, it ends with the "
              "bytes of one run", read(broken) == read(whole))


def killed_with_buckets():
    file = path("buckets.ckpt")
    status, errors = kill_one(3, "--checkpoint", file, "--checkpoint-every",
                              "5", "--global-batch", "30", "--exchange",
                              "buckets", "--bucket", "4K")
    check("a rank that is killed amid buckets ends the job",
          status != 0 and "killed by signal 9" in errors, repr(errors))


def broken_down():
    with open(path("log"), encoding="ascii") as file:
        *log, final = [json.loads(line) for line in file]
    check("the parts of a step sum to its time",
          all(abs(sum(p["parts_ms"].values()) - p["step_ms"])
              < 0.03 * p["step_ms"] for p in log), str(log[0]))
    rest = sum(p["parts_ms"]["rest"] for p in log)
    check("and they name what all but 3 % of it are for",
          rest < 0.03 * sum(p["step_ms"] for p in log), f"({rest:.3f} ms)")
    check("moving the centre is one of them", final["parts_s"]["centre"] > 0,
          str(final))


def threads_and_one_rank():
    one, two = path("1.ckpt"), path("2.ckpt")
    options = ["--steps", "30", *strategy("sync-easgd3")]
    train(2, one, *options, "--log", path("log"))
    broken_down()
    train(2, two, *options, "--threads", "2", "--bind", "none")
    error = distance(export(two), export(one))
    check("2 threads learn what 1 does", error < 1e-5, f"({error:.2g})")
    for way in SOME[-1:]:
        options = [*strategy(way), "--steps"]
        train(1, one, *options, "30")
        train(1, two, *options, "11")
        train(1, two, *options, "30", "--resume")
        check(f"{way}: one rank resumes, too", read(one) == read(two))


def refuse():
    file = path("apart.ckpt")
    train(2, file, "--steps", "5", *strategy("sync-easgd2"))
    train(2, path("sync.ckpt"), "--steps", "5")
    with open(path("old.ckpt"), "wb") as old:
        data = read(path("sync.ckpt"))
        old.write(data[:8] + struct.pack("<I", 2) + data[12:])
    for nranks, name, options, expected in (
            (1, "apart", strategy("sync-easgd2"), "the weights of 2 ranks, found 1"),
            (2, "apart", strategy("sync-easgd3"),
             "--strategy was sync-easgd2, found sync-easgd3"),
            (2, "apart", [], "--strategy was sync-easgd2, found sync"),
            (2, "sync", strategy("sync-easgd2"),
             "--strategy was sync, found sync-easgd2"),
            (2, "old", [], "version 2, valid are 3 and 4")):
        done = subprocess.run(
            command(nranks, "--resume", path(name + ".ckpt"), *options),
            env=ENV, capture_output=True, text=True, timeout=60)
        check(f"{nranks} ranks, {name}, {options}: refused",
              done.returncode != 0 and expected in done.stderr,
              repr(done.stderr))
    done = subprocess.run([TRAIN, "eval", "--checkpoint", file, "--data",
                           "synthetic:300"], env=ENV, capture_output=True,
                          text=True, timeout=60)
    check("eval takes the centre", done.returncode == 0, repr(done.stderr))


def main():
    with FOLDER as folder:
        with open(os.path.join(folder, "small.net"), "w") as file:
            file.write(NET)
        if THOROUGH:  # easgd_threads has the same, without the net
            same_bits()
        killed_and_resumed()
        killed_with_buckets()
        threads_and_one_rank()
        refuse()
    return 1 if training_ranks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
