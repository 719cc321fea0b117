#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weak scaling on Knights Landing, to 4,352 cores

You, Buluc and Demmel (SC17) state a weak scaling efficiency of 91.5 % on "4253"
cores in the abstract; 4,352 are 64 nodes of 68. The other points, from seconds for
300 iterations of GoogLeNet, are from memory. Simulated on the described cluster
`knl_cori`, whose links are placeholders: elastic averaging at every step as the paper
has it on the cluster, where node 0 broadcasts the centre and weights are reduced to it
(sync-easgd1); and one allreduce beside the next step (sync-easgd3). A step takes what
the paper's took on one node; of VGG-19, whose figures are not known, it is taken to be
16 s.

Measured: 1 to 8 ranks of this host, one thread each, 4 images of 3x224x224 a rank.
What it can compute is shared by all, so efficiency is images a second over those of
one rank times the ranks that have a processor."""
import os
import statistics
import sys

sys.dont_write_bytecode = True
from paper import (ABSTRACT, MEASURED, MEMORY, SIMULATED, Run,  # noqa: E402
                   curve)
import nets  # noqa: E402

CORES = 68
STRATEGIES = ("sync-easgd1", "sync-easgd3")
RANKS, IMAGES, STEPS = (1, 2, 4, 8), 4, 10  # of each rank
# Weights, seconds of a step, and those of the paper's 300 steps on 1, 2, 4, ... 64
# nodes where they are known.
NETS = {"GoogLeNet": (6998552 * 4, 1533 / 300,
                      (1533, 1590, 1608, 1641, 1630, 1662, 1674)),
        "VGG-19": (143667240 * 4, 16, ())}


def train(run, ranks, strategy):
    """Images a second, and what of a step rank 0 waits."""
    net, nsteps, images = (("lenet", 2, 1) if run.smallest
                           else ("googlenet", STEPS, IMAGES))
    steps, _ = run.train(
        ranks, "--net", net, "--data",
        f"synthetic:{nsteps * images * ranks}x{nets.images(net)}", "--batch",
        images, "--steps", nsteps, "--lr", 0.0001, "--strategy", strategy)
    later = steps[1:]  # the first one warms up
    return (1e3 * ranks * images
            / statistics.median(row["step_ms"] for row in later),
            statistics.median(row["comm_share"] for row in later))


def measured(run):
    rows, one = [], {}
    for ranks in run.points(RANKS):
        cells = []
        for strategy in STRATEGIES:
            speed, share = train(run, ranks, strategy)
            whole = (one.setdefault(strategy, speed)
                     * min(ranks, len(os.sched_getaffinity(0))))
            cells += [f"{speed:.1f}", f"{100 * share:.1f} %",
                      f"{100 * speed / whole:.1f} %"]
        rows.append((MEASURED, ranks, *cells))
    run.say(f"{'LeNet' if run.smallest else 'GoogLeNet'} on this host:")
    run.table(("ranks", *(head for strategy in STRATEGIES for head in (
        f"{strategy}: images/s", "communication", "efficiency"))), rows)


def main():
    run = Run(__doc__)
    rows, panels, losses = [], [], []
    for net in run.points(NETS):
        size, step, seconds = NETS[net]
        first, third = (run.sim(
            "train", "--cluster", "knl_cori", "-n",
            "1..8" if run.smallest else "1..64", "--bytes", size,
            "--step-ms", 1e3 * step, "--strategy", strategy)
            for strategy in STRATEGIES)
        paper = [(CORES << i, 100 * seconds[0] / s)
                 for i, s in enumerate(seconds)]
        for i, (a, b) in enumerate(zip(first, third)):
            said = f"{paper[i][1]:.1f} %, {MEMORY}" if paper else "-"
            if paper and a["nranks"] == 64:
                said += f"; 91.5 %, {ABSTRACT}"
            rows.append((
                SIMULATED, net, a["nranks"], CORES * a["nranks"], said,
                f"{a['exchange_ms']:.2f}", f"{100 * a['efficiency']:.2f} %",
                f"{b['exchange_ms']:.2f}", f"{100 * b['efficiency']:.2f} %"))
        if paper:
            losses.append(f"{net} on {a['nranks']} nodes {100 - paper[i][1]:.1f} % "
                          f"and {100 - 100 * a['efficiency']:.2f} %")
        panels.append({
            "subtitle": "Left: GoogLeNet, right: VGG-19; ours simulated",
            "x_label": "cores", "y_label": net, "x": "numbers",
            "y": "percent", "series": [
                *([curve(f"the paper, {MEMORY}", paper)] if paper else ()),
                curve("sync-easgd1, simulated",
                      [(CORES * r["nranks"], 100 * r["efficiency"])
                       for r in first]),
                curve("sync-easgd3, simulated",
                      [(CORES * r["nranks"], 100 * r["efficiency"])
                       for r in third])]})
    run.table(("net", "nodes", "cores", "the paper", "sync-easgd1: ms",
               "efficiency", "sync-easgd3: ms", "efficiency"), rows)
    run.say("What the paper lost, from memory, and what the links explain "
            f"(sync-easgd1):\n{'; '.join(losses)}. What else a step waited "
            "for, the slowest\nnode among others, is not in this model.")
    measured(run)
    run.picture(*panels)
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
