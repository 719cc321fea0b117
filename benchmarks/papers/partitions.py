#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A chip in groups, each with weights and data of its own

You, Buluc and Demmel (SC17) divide a Knights Landing chip into P groups of cores;
each has a copy of the weights and of the data in fast memory and computes gradients
of its own batch, which are summed. AlexNet on CIFAR reached an accuracy of 0.625 in
1605, 1025, 823 and 490 s with P = 1, 4, 8 and 16, and 16 is the limit as each group
needs 249 MB of weights and 687 MB of data of 16 GB (from the text).

Measured: one group of two threads, and two groups (ranks, --partition) of one thread;
the batch of a group is the same, so two groups take twice as many images a step. First
LeNet until it has an accuracy on Fashion-MNIST, then images a second of other nets.

Computed for the chip: if of a step that one core computes a part s could not be
shared, P groups of 68 / P cores would have P (s + (1 - s) / 68) / (s + (1 - s) P / 68)
times the images a second; s is such that P = 16 agrees."""
import statistics
import sys

sys.dont_write_bytecode = True
from paper import (COMPUTED, MEASURED, TEXT, MIB, Run, curve)  # noqa: E402
import nets  # noqa: E402

CORES = 68
PAPER = {1: 1605, 4: 1025, 8: 823, 16: 490}
WEIGHTS_MB, DATA_MB, FAST_MB = 249, 687, 16000
TARGET, EPOCHS, WINDOW = 0.85, 2, 6400
GROUPS = ((1, 2), (2, 1))  # groups, threads of each
SPEED = {"lenet": 64, "resnet20": 32, "alexnet": 8, "resnet50": 4}
STEPS = 8


def threads_of(groups, threads):
    """Options; a group of several is in a NUMA node."""
    return ["--threads", threads, *(["--partition"] if groups > 1 else [])]


def faster(p, s):
    return (p * (s + (1 - s) / CORES)) / (s + (1 - s) * p / CORES)


def fit(p, ratio):
    """s, by halving: faster() grows with it."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = ((middle, high) if faster(p, middle) < ratio
                     else (low, middle))
    return (low + high) / 2


def chip(run):
    s = fit(16, PAPER[1] / PAPER[16])
    rows = [(COMPUTED, p, f"{CORES / p:g}",
             f"{p * (WEIGHTS_MB + DATA_MB) / 1e3:.2f} of {FAST_MB / 1e3:g}",
             f"{seconds}, {TEXT}", f"{PAPER[1] / seconds:.2f}",
             f"{faster(p, s):.2f}") for p, seconds in PAPER.items()]
    run.say(f"The chip; s = {s:.3f} agrees with P = 16:")
    run.table(("P", "cores a group", "GB of fast memory", "s to 0.625",
               "faster: the paper", "computed"), rows)
    return [curve(f"the paper, {TEXT}: time to accuracy",
                  [(p, PAPER[1] / s) for p, s in PAPER.items()]),
            curve("computed: images a second",
                  [(p, faster(p, s)) for p in PAPER])]


def epochs(run):
    return 1 if run.smallest else EPOCHS


def to_target(run, groups, threads):
    """Seconds of training until the last WINDOW images of it were right to
    TARGET, or None, and the log's last object."""
    steps, final = run.train(
        groups, "--net", "lenet", "--data", "fashion-mnist", "--epochs",
        epochs(run), "--batch", 64, "--lr", 0.02, "--momentum", 0.9,
        *threads_of(groups, threads))
    window, spent, recent = WINDOW // (64 * groups), 0, []
    for row in steps:
        spent += row["step_ms"] / 1e3
        recent = [*recent[-window + 1:], row["accuracy"]]
        if len(recent) == window and statistics.fmean(recent) >= TARGET:
            return spent, final
    return None, final


def speed(run, net, groups, threads):
    count = SPEED[net] * groups * STEPS
    steps, _ = run.train(groups, "--net", net, "--data",
                         f"synthetic:{count}x{nets.images(net)}", "--batch",
                         SPEED[net], "--steps", STEPS,
                         *threads_of(groups, threads))
    return statistics.median(row["images_per_s"] for row in steps[1:])


def main():
    run = Run(__doc__)
    found, rows = {}, []
    for groups, threads in run.points(GROUPS):
        found[groups] = to_target(run, groups, threads)
        seconds, final = found[groups]
        rows.append((
            MEASURED, groups, threads, 64 * groups,
            f"{seconds:.2f}" if seconds else f"not in {epochs(run)} epochs",
            f"{found[1][0] / seconds:.2f}" if seconds and found[1][0]
            else "-", f"{final['images_per_s']:.0f}",
            f"{100 * final['accuracy']:.1f} %"))
    run.table(("groups", "threads each", "batch",
               f"s to {TARGET}", "faster", "images/s", "test accuracy"), rows)
    rows = []
    for net in run.points(SPEED):
        one, two = (speed(run, net, *groups) for groups in GROUPS)
        size = 4 * sum(nets.tensors(net))
        rows.append((MEASURED, net, f"{size / MIB:.1f}", SPEED[net],
                     f"{one:.4g}", f"{two:.4g}", f"{two / one:.2f}"))
    run.say("Images a second, one group of two threads and two groups of one:")
    run.table(("net", "MiB", "images a group", "1 group", "2 groups",
               "ratio"), rows)
    series = chip(run)
    both = [seconds for seconds, _ in found.values() if seconds]
    if len(both) == 2:
        series.append(curve("measured here: time to accuracy",
                            [(1, 1), (2, both[0] / both[1])]))
    run.picture({"subtitle": "How many times faster than one group",
                 "x_label": "groups of cores", "y_label": "faster",
                 "x": "numbers", "y": "numbers", "series": series})
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
