#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with ranks that serve: usage training_servers.py BUILD_FOLDER.

Every strategy learns and goes on from its checkpoint, also after a rank was
killed, which ends the job; round robin gives the same bytes each time, also
strictly, with more servers, after a stop and after a kill; what does not fit a
strategy is refused.
"""
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, "coll_train")
ENV = dict(os.environ, OPENBLAS_NUM_THREADS="1")
NET = """input 1x12x12
conv 4 3x3
batchnorm
relu
maxpool 2x2
dense 10
softmax_loss
"""
# Learning rates: the changes of three workers add up, and momentum tenfold.
STRATEGIES = {"easgd-round-robin": 0.05, "async-sgd": 0.02,
              "async-msgd": 0.002, "hogwild-sgd": 0.02, "async-easgd": 0.05,
              "async-measgd": 0.005, "hogwild-easgd": 0.05,
              "parameter-server": 0.05}
ELASTIC = [name for name in STRATEGIES if "easgd" in name or "para" in name]
FOLDER = tempfile.TemporaryDirectory(prefix="training_servers.")
failures = 0


def path(name):
    return os.path.join(FOLDER.name, name)


def check(claim, holds, detail=""):
    global failures
    failures += not holds
    print(("ok" if holds else "FAILED"), "-", claim, detail, flush=True)


def command(nranks, *options):
    return [os.path.join(BUILD, "collrun"), "-n", str(nranks), TRAIN, "--net",
            path("net"), "--data", "synthetic:600x1x12x12", "--batch", "8",
            *options]


def run(nranks, *options):
    return subprocess.run(command(nranks, *options), env=ENV, text=True,
                          capture_output=True, timeout=120)


def train(nranks, strategy, *options):
    done = run(nranks, "--strategy", strategy, "--lr",
               str(STRATEGIES[strategy]), *options)
    if done.returncode:
        sys.exit(f"{' '.join(done.args)}: status {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def exported(name):
    subprocess.run([TRAIN, "export", "--checkpoint", path(name),
                    "--safetensors", path("out")], check=True, env=ENV)
    return read("out")


def points(name):
    with open(path(name)) as file:
        return [json.loads(line) for line in file]


def learns(strategy, tau):
    """Four epochs of 75 shares; half of them, and on from there."""
    options = ["--log", path("log"), "--checkpoint", path("a"), "--tau",
               str(tau)]
    train(4, strategy, "--steps", "50", "--test-every", "20", *options)
    first = points("log")[-1]
    tested = [p["step"] for p in points("log")[:-1] if "test_loss" in p]
    check(f"{strategy} meets at --test-every", tested == [20, 25, 40, 50],
          tested)
    out = train(4, strategy, "--steps", "100", "--resume", *options)
    log = points("log")
    last, steps = log[-1], [p["step"] for p in log[:-1]]
    check(f"{strategy} learns and goes on",
          last["accuracy"] > 0.7 and last["loss"] < first["loss"]
          and steps == sorted(set(steps)) and steps[-1] == 100
          and any(s <= 50 for s in steps),
          f"(accuracy {last['accuracy']}, loss {first['loss']:.3g} to "
          f"{last['loss']:.3g})")
    # Two more epochs of 75 shares each.
    changes = sum(last["staleness"])
    check(f"{strategy} counts its exchanges",
          (changes == 150 if tau == 1 else 74 <= changes <= 80)
          and "staleness  " in out, f"({changes})")


def counts_images():
    """An epoch of one step, with fewer images than workers could take."""
    train(4, "async-sgd", "--batch", "256", "--steps", "3", "--log",
          path("log"))
    images = [p["images_per_s"] * p["step_ms"] / 1000
              for p in points("log")[:-1]]
    check("images/s counts those that there are",
          len(images) == 3 and all(abs(n - 600) < 1 for n in images), images)
    *log, final = points("log")
    seconds = 1800 / final["images_per_s"]
    talked = sum(p["comm_share"] * p["step_ms"] / 1000 for p in log)
    check("evaluations are no part of communication",
          abs(final["comm_share"] * seconds - talked) < 2e-4 + 0.01 * talked,
          f"({final['comm_share'] * seconds:.6f} s, in steps {talked:.6f})")
    parts = sum(sum(p["parts_ms"].values()) / 1000 for p in log)
    check("the parts of steps sum to the time of training",
          abs(parts - seconds) < 0.03 * seconds + 1e-3,
          f"({parts:.6f} of {seconds:.6f} s)")


def names_all():
    """Of workers that have more to do with weights than with images."""
    with open(path("wide"), "w", encoding="ascii") as file:
        file.write("input 1x12x12\ndense 16384\nrelu\ndense 10\nsoftmax_loss\n")
    for strategy, *more in (("async-easgd",), ("easgd-round-robin",),
                            ("hogwild-easgd",), ("async-sgd",),
                            ("parameter-server", "--rho", "0.1")):
        train(2, strategy, *more, "--net", path("wide"), "--steps", "20",
              "--log", path("log"))
        *log, final = points("log")
        rest = sum(p["parts_ms"]["rest"] for p in log)
        whole = sum(p["step_ms"] for p in log)
        check(f"{strategy}: parts of steps name all but 3 % of them",
              rest < 0.03 * whole, f"({rest:.3f} of {whole:.3f} ms)")
        check(f"{strategy}: the server's rule is the update of a centre",
              final["parts_s"]["centre"] > 0, final)
    train(4, "hogwild-easgd", "--net", path("wide"), "--steps", "20", "--log",
          path("log"))
    final = points("log")[-1]
    check("threads that change the centre at once count as one",
          min(final["parts_s"].values()) >= 0 < final["parts_s"]["centre"]
          < final["seconds"], final)


def round_robin():
    name = "easgd-round-robin"
    options = ["--steps", "40", "--momentum", "0", "--checkpoint"]
    train(4, name, *options, path("a"))
    train(4, name, *options, path("b"))
    check("round robin twice gives the same bytes", read("a") == read("b"))
    train(4, name, "--original-strict", "--delay", "1:2", *options, path("b"))
    check("and strictly, with a slow worker", read("a") == read("b"))
    train(5, name, "--servers", "2", *options, path("b"))
    check("and with two servers, the centre", exported("a") == exported("b"))
    every = ["--checkpoint-every", "10", "--tau", "2"]
    train(4, name, *every, *options, path("a"))
    train(4, name, *every, "--steps", "20", "--checkpoint", path("b"))
    train(4, name, *every, "--resume", *options, path("b"))
    check("and after a stop", read("a") == read("b"))


def stops():
    job = subprocess.Popen(
        command(4, "--strategy", "hogwild-sgd", "--lr", "0.001", "--epochs",
                "100000", "--checkpoint", path("c"), "--log", path("log")),
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not os.path.exists(path("c")) and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGTERM)
    _, errors = job.communicate(timeout=60)
    check("a signal ends it with a checkpoint",
          job.returncode == 128 + signal.SIGTERM
          and "stopped by signal 15 after step" in errors, errors)
    os.remove(path("c"))


def descendants(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(child) for child in file.read().split()]
    return children + [p for child in children for p in descendants(child)]


def environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().split(b"\0")


def steps_of(name):
    """Steps that the run of a checkpoint had done."""
    data = read(name)
    text = struct.unpack("<Q", data[16:24])[0]
    return struct.unpack("<Q", data[72 + text:80 + text])[0]


def dies(strategy, rank, *options):
    """SIGKILL of one rank, somewhere in the middle; then 20 steps more."""
    options += ("--lr", "0.001", "--checkpoint", path("c"))
    job = subprocess.Popen(
        command(4, "--strategy", strategy, "--epochs", "100000", *options),
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not os.path.exists(path("c")) and job.poll() is None:
        time.sleep(0.01)
    victims = [child for child in descendants(job.pid)
               if b"COLL_RANK=%d" % rank in environment(child)]
    for child in victims: # the others may be gone as soon as one is
        os.kill(child, signal.SIGKILL)
    start = time.monotonic()
    try:
        _, errors = job.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        job.kill()
        _, errors = job.communicate()
    seconds = time.monotonic() - start
    check(f"{strategy} ends when rank {rank} dies",
          job.returncode != 0 and seconds < 10 and "rank" in errors
          and f"rank {rank}" in errors.split("collrun:")[0]
          and "signal 9" in errors, f"({seconds:.1f} s: {errors.strip()[:200]})")
    steps = steps_of("c")
    end = ["--steps", str(steps + 20), *options]
    name = f"log.{strategy}"
    train(4, strategy, *end, "--log", path(name), "--resume")
    *log, final = points(name)
    check(f"{strategy} goes on after step {steps}",
          log[0]["step"] > steps and log[-1]["step"] == steps + 20
          and math.isfinite(final["loss"]), (log[0]["step"], log[-1]))
    if strategy == "easgd-round-robin":
        train(4, strategy, *end, "--checkpoint", path("d"))
        check("and ends with the bytes of a run without the kill",
              read("c") == read("d"))
    os.remove(path("c"))
    os.remove(path(name)) # a run that resumes adds to it


def slow_worker():
    """The others go on without it, or wait."""
    def seconds(name):
        start = time.monotonic()
        train(4, name, "--steps", "25", "--delay", "1:30")
        return time.monotonic() - start
    for _ in range(4):
        found = [seconds(name)
                 for name in ("async-easgd", "easgd-round-robin")]
        if found[0] + 0.2 < found[1]:
            break
    check("a slow worker keeps up round robin only", found[0] + 0.2 < found[1],
          str(found))


def refuses(words, nranks, *options):
    done = run(nranks, *options)
    check("refused: " + " ".join(options),
          done.returncode == 2 and words in done.stderr, done.stderr)


def other_servers():
    """A worker's weights are no centre, nor the other way round."""
    options = ["--global-batch", "24", "--checkpoint", path("a")]
    train(4, "async-sgd", "--steps", "10", *options)
    done = run(4, "--strategy", "async-sgd", "--servers", "2", "--steps", "20",
               "--resume", *options)
    check("refused: other servers than before",
          done.returncode != 0 and "--strategy was async-sgd --servers 1, "
          "found async-sgd --servers 2" in done.stderr, done.stderr)


def refused():
    refuses("valid with --strategy async-sgd is sgd", 1, "--strategy",
            "async-sgd", "--optimizer", "adam")
    refuses("--momentum: found 0.9, valid with --strategy hogwild-easgd is 0",
            1, "--strategy", "hogwild-easgd", "--momentum", "0.9")
    refuses("--momentum: found 0, valid with --strategy async-msgd is above 0",
            1, "--strategy", "async-msgd", "--momentum", "0")
    refuses("--servers: found --strategy sync, valid with", 1, "--servers",
            "1")
    refuses("--original-strict: found --strategy async-easgd, valid with "
            "easgd-round-robin", 1, "--strategy", "async-easgd",
            "--original-strict")
    refuses("--alpha: found --strategy async-sgd", 1, "--strategy",
            "async-sgd", "--alpha", "0.1")
    refuses("--rho: found --strategy async-easgd, valid with parameter-server",
            1, "--strategy", "async-easgd", "--rho", "0.1")
    refuses("--deterministic: found --strategy hogwild-sgd", 1, "--strategy",
            "hogwild-sgd", "--deterministic")
    refuses("--servers: found 2 of 2 ranks", 2, "--strategy", "async-sgd",
            "--servers", "2")
    refuses("--delay: found rank 1, valid is one that works, from 0 to 0", 2,
            "--strategy", "async-sgd", "--delay", "1:5")
    refuses("--delay: found \"1\", valid is RANK:MS", 1, "--delay", "1")


with open(path("net"), "w") as net:
    net.write(NET)
for strategy in STRATEGIES:
    learns(strategy, 2 if strategy in ELASTIC else 1)
learns("async-sgd", 2)
counts_images()
names_all()
round_robin()
stops()
dies("easgd-round-robin", 1)
dies("easgd-round-robin", 2, "--original-strict")
dies("async-sgd", 3)
dies("async-msgd", 0)
dies("hogwild-sgd", 3)
dies("async-easgd", 2, "--tau", "2")
dies("async-measgd", 3, "--tau", "2")
dies("hogwild-easgd", 0)
dies("parameter-server", 1, "--tau", "2", "--rho", "0.1", "--optimizer", "adam")
slow_worker()
other_servers()
refused()
sys.exit(failures > 0)
