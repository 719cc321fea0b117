#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training with several ranks: usage training_ranks.py BUILD_FOLDER.

k ranks with batch b do what one rank with batch k*b does, to rounding; the
same k twice gives the same bytes; a run that was stopped and resumed ends with
the bytes of one that was not; one that is killed leaves a whole checkpoint.
"""
import array
import fcntl
import json
import os
import pty
import random
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
from processes import ranks_of  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
THOROUGH = "TESTS_THOROUGH" in os.environ
TRAIN = os.path.join(BUILD, "coll_train")
ENV = dict(os.environ, OPENBLAS_NUM_THREADS="1")
GLOBAL_BATCH = 32
STEPS = 50
# Every kind of layer; the learning rate is low enough for a smooth descent,
# where rounding does not grow.
NET = """net small
input 1x28x28
conv 6 5x5 stride 2 pad 2
relu
maxpool 2x2
conv 12 3x3
avgpool 2x2
dense 40
relu
dropout 0.3
dense 10
softmax_loss
"""
FOLDER = tempfile.TemporaryDirectory(prefix="training_ranks.")
OPTIONS = ["--net", os.path.join(FOLDER.name, "small.net"),
           "--data", "synthetic:1490", "--lr", "0.01", "--momentum", "0.9",
           "--weight-decay", "1e-4", "--schedule", "step", "--every", "20",
           "--gamma", "0.5", "--warmup", "10",
           "--global-batch", str(GLOBAL_BATCH)]
failures = 0


def check(claim, holds, detail=""):
    global failures
    failures += not holds
    print(("ok" if holds else "FAILED"), "-", claim, detail, flush=True)


def command(nranks, *options):
    return [os.path.join(BUILD, "collrun"), "-n", str(nranks), TRAIN,
            *OPTIONS, *options]


def train(nranks, checkpoint, *options, **settings):
    done = subprocess.run(
        command(nranks, "--checkpoint", checkpoint, *options),
        env={**ENV, **settings}, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{' '.join(done.args)}: status {done.returncode}\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def read(path):
    with open(path, "rb") as file:
        return file.read()


def export(checkpoint):
    """The tensors of a checkpoint by name, through the exported file."""
    path = checkpoint + ".safetensors"
    subprocess.run([TRAIN, "export", "--checkpoint", checkpoint,
                    "--safetensors", path], check=True, env=ENV)
    data = read(path)
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        first, end = (8 + size + at for at in entry["data_offsets"])
        tensors[name] = array.array("f", data[first:end])
    return tensors


def distance(a, b):
    """|a - b| / |b| of the worst tensor, in the Euclidean norm."""
    worst = 0.0
    for name, x in a.items():
        difference = sum((u - v) ** 2 for u, v in zip(x, b[name])) ** 0.5
        size = sum(v * v for v in b[name]) ** 0.5
        worst = max(worst, difference / size)
    return worst


def same_as_one_rank(folder):
    one = os.path.join(folder, "1.ckpt")
    train(1, one, "--steps", str(STEPS))
    reference = export(one)
    for nranks in (2, 4):
        first = os.path.join(folder, f"{nranks}.ckpt")
        second = os.path.join(folder, f"{nranks}-again.ckpt")
        train(nranks, first, "--steps", str(STEPS))
        train(nranks, second, "--steps", str(STEPS))
        error = distance(export(first), reference)
        check(f"{nranks} ranks train what 1 rank trains", error < 1e-5,
              f"(relative difference {error:.2g})")
        check(f"{nranks} ranks twice give the same bytes",
              read(first) == read(second))


def other_optimisers(folder):
    """The later of two options counts."""
    one, two = (os.path.join(folder, f"other{n}.ckpt") for n in (1, 2))
    for options in ["--momentum", "0"], ["--optimizer", "nesterov"]:
        train(1, one, "--steps", str(STEPS), *options)
        train(2, two, "--steps", str(STEPS), *options)
        error = distance(export(two), export(one))
        check(f"{' '.join(options)}: 2 ranks train what 1 rank trains",
              error < 1e-5, f"(relative difference {error:.2g})")


def exchanges(folder):
    """Of two ranks all sums have one order, so all ways give the same bytes; the
    last batch of the data leaves a rank without images."""
    first = None
    for how in ("packed", "layers", "buckets", "buckets --bucket 4K"):
        path = os.path.join(folder, "exchange.ckpt")
        train(2, path, "--steps", "70", "--data", "synthetic:97",
              "--exchange", *how.split(), COLL_TRANSPORT="ucx")
        first = first or read(path)
        check(f"--exchange {how} gives the same bytes", read(path) == first)


def lines_of(path):
    return read(path).count(b"\n") if os.path.exists(path) else 0


def killed_in_training(records, log, *options):
    """Leaves the flight recorders of two ranks, of which one was killed after
    some steps."""
    job = subprocess.Popen(
        command(2, "--epochs", "1000000", "--log", log, *options),
        env={**ENV, "COLL_RECORDER": records}, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while lines_of(log) < 20 and job.poll() is None \
                and time.monotonic() < end:
            time.sleep(.01)
        for name in os.listdir(records)[:1]:  # coll-JOB-RANK-PROCESS.rec
            os.kill(int(name[:-len(".rec")].split("-")[-1]), signal.SIGKILL)
        job.wait(timeout=60)
    finally:
        job.kill()
        job.wait()


def exchanges_are_few(folder):
    """Between two sums of losses, which are f64 and one a step; an evaluation
    adds up some more, with no step between."""
    for how, count in ("packed", 1), ("layers", 4):
        with tempfile.TemporaryDirectory(dir=folder) as records:
            trace = os.path.join(folder, "trace.json")
            killed_in_training(records, trace + "-" + how, "--exchange", how)
            subprocess.run([os.path.join(BUILD, "coll_trace"), records, "-o",
                            trace], env=ENV, stdout=subprocess.DEVNULL)
        with open(trace) as file:
            calls = [e["args"]["call"] for e in json.load(file)["traceEvents"]
                     if e["ph"] == "X" and e["tid"] == 0]
        ends = [i for i, call in enumerate(calls) if " f64" in call]
        found = {j - i - 1 for i, j in zip(ends, ends[1:])} - {0}
        check(f"--exchange {how}: gradients come in {count} calls a step",
              found == {count}, f"({found} {calls[-5:]})")


def images(folder):
    """Ranks change and draw the images as one does; noise shows any difference."""
    noise = random.Random(1)
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] \
            + ["test_batch.bin"]:
        with open(os.path.join(folder, name), "wb") as file:
            if name.startswith("data"):
                file.write(b"".join(bytes([i % 10]) + noise.randbytes(3072)
                                    for i in range(500)))
            file.truncate(10000 * 3073)
    net = os.path.join(folder, "tiny.net")
    with open(net, "w") as file:
        file.write("input 3x32x32\navgpool 4x4\ndense 10\nsoftmax_loss\n")
    options = ["--steps", "30", "--net", net, "--data", "cifar10:" + folder]
    plain, one, two = (os.path.join(folder, f"images{n}.ckpt")
                       for n in range(3))
    train(1, plain, *options)
    for words in ["--augment"], ["--shuffle", "draw"]:
        train(1, one, *options, *words)
        train(2, two, *options, *words)
        error = distance(export(two), export(one))
        check(f"{' '.join(words)}: 2 ranks take the images of 1 rank",
              error < 1e-5, f"(relative difference {error:.2g})")
        other = distance(export(plain), export(one))
        check(f"{' '.join(words)}: they are other images", other > 1e-3,
              f"(relative difference {other:.2g})")


def resume(folder):
    """Needs what same_as_one_rank() left."""
    path = os.path.join(folder, "resumed.ckpt")
    log = os.path.join(folder, "resumed.jsonl")
    train(2, path, "--steps", "23", "--log", log)
    out = train(2, path, "--steps", str(STEPS), "--log", log, "--resume")
    check("resumed at step 23, 2 ranks end with the bytes of one run",
          read(path) == read(os.path.join(folder, "2.ckpt")))
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    copy = os.path.join(folder, "copy.ckpt")
    train(2, copy, "--steps", str(STEPS), "--resume", path)
    check("with nothing left to do the checkpoint is written, too",
          read(copy) == read(path))
    check("the log has every step once and ends with the result",
          [line.get("step") for line in lines]
          == [*range(1, STEPS + 1), None] and lines[-1]["final"] is True)
    check("the last line agrees with the log",
          out.startswith(f"test accuracy {lines[-1]['accuracy']:.4f}  loss "),
          repr(out))


def resume_accumulated(folder):
    """And with what each rank's batch normalisation keeps."""
    net = os.path.join(folder, "norm.net")
    with open(net, "w") as file:
        file.write("input 1x28x28\nconv 4 5x5 stride 3\nbatchnorm\nrelu\n"
                   "dense 10\nsoftmax_loss\n")
    whole, parts = (os.path.join(folder, name)
                    for name in ("whole.ckpt", "parts.ckpt"))
    options = ["--net", net, "--accumulate", "2", "--clip-norm", "0.5",
               "--steps"]
    once = train(2, whole, *options, "11")
    train(2, parts, *options, "5")
    log = parts + ".jsonl"
    train(2, parts, *options, "11", "--resume", "--test-every", "3", "--log",
          log)
    check("resumed, sums of clipped gradients end with the bytes of one run",
          read(parts) == read(whole))
    with open(log) as file:
        tested = [line["step"] for line in map(json.loads, file)
                  if "test_loss" in line]
    check("--test-every evaluates there, and so does the end",
          tested == [6, 9, 11], str(tested))
    again = train(2, parts, *options, "11", "--resume")
    check("with nothing left to do it scores the same",
          again.split("images/s")[0] == once.split("images/s")[0], again)
    # Another number of ranks has none of their own.
    train(1, parts, *options, "13", "--resume")


def stop(folder):
    path = os.path.join(folder, "stopped.ckpt")
    log = os.path.join(folder, "stopped.jsonl")
    job = subprocess.Popen(
        command(2, "--epochs", "1000", "--checkpoint", path, "--log", log),
        env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while (not os.path.exists(log) or not read(log)) and job.poll() is None:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    os.kill(ranks_of(job.pid)[1], signal.SIGINT)
    errors = job.communicate(timeout=60)[1]
    check("SIGINT to a rank ends the job with its status",
          job.returncode == 128 + signal.SIGINT, f"(status {job.returncode})")
    check("and with a checkpoint", os.path.exists(path), errors)
    steps = len(read(log).splitlines())
    check("of the step that the log ends with",
          f"after step {steps} of" in errors, repr(errors))
    train(2, path, "--steps", str(steps + 2), "--resume")


def refuse(folder):
    """Bad input: status 2 and one line that says what was found."""
    path = os.path.join(folder, "2.ckpt")
    cases = [(["--net", "lenett"], "did you mean lenet?"),
             (["--data", "imagenet"], 'found "imagenet", valid is '),
             (["--data", "cifar10:" + folder + "/x"],
              "data_batch_1.bin: no such"),
             (["--augment"], "--augment: the images of synthetic"),
             (["--strategy", "sync-easgd4"], "valid is sync, "),
             (["--tau", "2"], "--tau: found --strategy sync, valid with sync-easgd1"),
             (["--strategy", "sync-easgd1", "--centre", "sharded"],
              "valid with decentralized-easgd"),
             (["--strategy", "sync-easgd1", "--exchange", "buckets"],
              "valid with sync"),
             (["--strategy", "sync-easgd1", "--ema", "0.9"], "--ema: found"),
             (["--alpha", "0"], "--alpha"),
             (["--precision", "f16"], "valid is f32, bf16"),
             (["--checkpoint", path, "--resume", "--seed", "9"],
              "--seed was 1, found 9"),
             (["--resume", folder], "a folder"),
             (["--checkpoint", "/nowhere/x"], "--checkpoint: /nowhere/x: "),
             (["--checkpoint", folder], "--checkpoint: " + folder),
             (["--log", "/nowhere/x"], "--log: /nowhere/x: cannot write"),
             (["--plot", "/nowhere/x"], "--plot: /nowhere/x: cannot write"),
             (["--log", path, "--plot", path],
              f"--plot: found {path}, the file of --log, valid is another"),
             (["--log", path, "--resume", path], "the file of --resume"),
             (["--checkpoint", ""], "--checkpoint: : cannot write"),
             (["--momentum", "2"], "--momentum"),
             (["--schedule", "fixed"], "--gamma: found --schedule fixed, valid "
              "with step, multistep, exp, inv, sigmoid"),
             (["--power", "2"], "--power: found --schedule step, valid with inv"),
             (["--schedule", "exp"], "--every: found --schedule exp, valid with "
              "step, sigmoid"),
             (["--steps", "5", "--strategy", "sync-easgd2", "--tau", "6"],
              "--tau: found 6, valid is at most the 5 steps"),
             (["--warmup", "0", "--warmup-from", "0.1"], "found no --warmup"),
             ([os.path.join(folder, "no.yaml")], "no.yaml: cannot read"),
             (["COLL_ALGO=rng"], "did you mean ring?"),
             (["COLL_RANK=7"], "COLL_RANK")]
    for words, expected in cases:
        settings = dict(word.split("=") for word in words if "COLL_" in word)
        options = [word for word in words if "COLL_" not in word]
        done = subprocess.run([TRAIN, *OPTIONS, *options],
                              env={**ENV, **settings},
                              capture_output=True, text=True, timeout=60)
        check(f"{' '.join(words)} is refused",
              done.returncode == 2 and expected in done.stderr
              and done.stderr.count("\n") == 1 and not done.stdout,
              repr(done.stderr))


def refuse_job(folder):
    """What a job file gives is said with its line and column, unless the
    command line gives it too."""
    path = os.path.join(folder, "wrong.yaml")
    for line, options, expected in (
            ("strategy: synk", [], ":2:11: strategy: found \"synk\""),
            ("net: lenett", [], ":2:6: net: found \"lenett\""),
            ("data: imagenet", [], ":2:7: data: found \"imagenet\""),
            ("tau: 2", [], ":2:6: tau: found --strategy sync"),
            ("gamma: 2", [], ":2:8: gamma: found --schedule fixed"),
            ("strategy: synk", ["--strategy", "synch"],
             "coll_train: --strategy: found \"synch\"")):
        with open(path, "w") as file:
            file.write(f"seed: 1\n{line}\n")
        done = subprocess.run([TRAIN, path, *options], env=ENV,
                              capture_output=True, text=True, timeout=60)
        check(f"{line} {' '.join(options)} is refused",
              done.returncode == 2 and expected in done.stderr
              and done.stderr.count("\n") == 1 and not done.stdout,
              repr(done.stderr))
    done = subprocess.run([TRAIN, "evla"], env=ENV, capture_output=True,
                          text=True, timeout=60)
    check("a mistyped command is", done.returncode == 2
          and "did you mean eval?" in done.stderr, repr(done.stderr))


def show(folder):
    """What is drawn fits any terminal; what cannot be written is said."""
    for columns in 30, 80, 200:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ,
                    struct.pack("HHHH", 24, columns, 0, 0))
        subprocess.run([TRAIN, *OPTIONS, "--steps", "20"], env=ENV,
                       stdout=subprocess.DEVNULL, stderr=theirs, check=True,
                       timeout=60)
        os.close(theirs)
        drawn = os.read(ours, 65536).decode()
        os.close(ours)
        lines = [line.split("\033")[0] for line in drawn.split("\r")]
        most = max(map(len, lines))
        check(f"a line of {most} characters for {columns} columns",
              "epoch 1/" in drawn and min(columns - 1, 90) <= most < columns,
              repr(drawn))
    done = subprocess.run(
        [TRAIN, *OPTIONS, "--steps", "3", "--log", "/dev/full", "--plot",
         os.path.join(folder, "p.svg")], env=ENV, capture_output=True,
        text=True, timeout=60)
    check("a full disk is named", done.returncode == 1
          and "/dev/full: cannot write: No space left" in done.stderr,
          repr(done.stderr))


def disagree():
    """Ranks with other options than the rest end with a sentence."""
    path = os.path.join(FOLDER.name, "disagree.ckpt")
    for option, one, other in (("--factors=on --net", "lenet", "resnet20"),
                               ("--factors", "on", "off"),
                               ("--kernel", "measured", "direct"),
                               ("--precision", "f32", "bf16"),
                               ("--lr", "0.1", "0.2"),
                               ("--strategy", "sync-easgd1", "sync-easgd2"),
                               ("--strategy=decentralized-easgd --centre",
                                "replicated", "sharded"),
                               ("--strategy=sync-easgd2 --tau", "1", "2"),
                               ("--strategy=sync-easgd2 --alpha", "0.1", "0.2"),
                               (f"--checkpoint={path} --checkpoint-every",
                                "1", "2")):
        script = (f'[ $COLL_RANK = 1 ] && set -- "$@" {option} {other} || '
                  f'set -- "$@" {option} {one}; exec "$@"')
        done = subprocess.run(
            [os.path.join(BUILD, "collrun"), "-n", "2", "sh", "-c", script,
             "sh", TRAIN, *OPTIONS, "--steps", "2"], env=ENV,
            capture_output=True, text=True, timeout=120)
        check(f"ranks with another {option} are told",
              done.returncode != 0 and "the ranks disagree about" in done.stderr,
              repr(done.stderr))


def deterministic_is_agreed():
    """It brings the library to full, where the environment says less, and so all
    ranks need it."""
    script = '[ $COLL_RANK = 1 ] && set -- "$@" --deterministic; exec "$@"'
    for said, expected in (("off", "or COLL_DETERMINISM"),
                           ("layout", "disagree about --deterministic"),
                           ("full", "disagree about --deterministic")):
        done = subprocess.run(
            [os.path.join(BUILD, "collrun"), "-n", "2", "sh", "-c", script,
             "sh", TRAIN, *OPTIONS, "--steps", "2"],
            env={**ENV, "COLL_DETERMINISM": said}, capture_output=True,
            text=True, timeout=120)
        check(f"--deterministic on one rank, beside {said}, is told",
              done.returncode != 0 and expected in done.stderr,
              repr(done.stderr))
    done = subprocess.run([TRAIN, *OPTIONS, "--steps", "2", "--deterministic"],
                          env={**ENV, "COLL_DETERMINISM": "layuot"},
                          capture_output=True, text=True, timeout=120)
    check("--deterministic leaves a wrong COLL_DETERMINISM to be told",
          done.returncode == 2 and "layuot is not off" in done.stderr,
          repr(done.stderr))


def threads_are_bound(folder):
    """More threads than cores are told in one line, and do no harm."""
    many = str(os.cpu_count() + 1)
    for options, lines in ((["--threads", many, "--bind", "none"], 0),
                           (["--threads", many], 1), ([], 0)):
        done = subprocess.run(command(2, "--steps", "2", *options), env=ENV,
                              capture_output=True, text=True, timeout=120)
        check(f"{' '.join(options)} gets {lines} lines",
              done.returncode == 0 and done.stderr.count("\n") == lines
              and ("more than the cores" in done.stderr) == bool(lines),
              repr(done.stderr))
    saved = os.path.join(folder, "threads")
    train(1, saved, "--steps", "1")
    done = subprocess.run(
        [TRAIN, "eval", "--checkpoint", saved, "--data",
         OPTIONS[OPTIONS.index("--data") + 1], "--threads", many],
        env=ENV, capture_output=True, text=True, timeout=120)
    check("eval says so, too",
          done.returncode == 0 and "more than the cores" in done.stderr,
          repr(done.stderr))


def main():
    with FOLDER as folder:
        with open(os.path.join(folder, "small.net"), "w") as file:
            file.write(NET)
        same_as_one_rank(folder)
        if THOROUGH:
            other_optimisers(folder)
        exchanges(folder)
        exchanges_are_few(folder)
        if THOROUGH:
            images(folder)
        resume(folder)
        resume_accumulated(folder)
        stop(folder)
        refuse(folder)
        refuse_job(folder)
        show(folder)
        disagree()
        deterministic_is_agreed()
        threads_are_bound(folder)
        left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
        check("no temporary file is left", not left, str(left))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
