#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swFLOW: elastic averaging at every tau-th step

Li et al. (Information Sciences 570, 2021) state in the abstract 81.01 % parallel
efficiency on 512 processes with tau = 8, and a batch of 4096 on 1024 processes, 4
images each. Net and times of a step are not known. If all of the loss was an
exchange that nothing hid, it took 1.875 times as long as a step; simulated is such
a step with AlexNet's weights on the described cluster `taihulight`, so that the row
of 512 processes and tau = 8 agrees by design and the others follow from the model,
1 / (1 + 1.875 / tau), which stands beside all.
decentralized-easgd exchanges beside the next step; with --overlap off after it.

Measured: two ranks, a host each with a port of 1 Gbit/s and a processor each, train
LeNet on Fashion-MNIST by sync-easgd2 and, beside the step, by decentralized-easgd."""
import statistics
import sys

sys.dont_write_bytecode = True
from paper import ABSTRACT, MEASURED, SIMULATED, Run, Skip, curve  # noqa: E402

WEIGHTS = 60965224 * 4
TAUS = (1, 2, 4, 8, 16)
PROCESSES = (512, 64, 8, 1024)
IMAGES = 4              # of a process, of a batch of 4096 on 1024
RATIO = 1.875           # of an exchange to a step: 81.01 % at tau = 8
STEPS = 112
MEASURED_BY = ("sync-easgd2", "decentralized-easgd")


def model(tau):
    return f"{100 / (1 + RATIO / tau):.1f} %"


def simulate(run, processes, step_ms, overlap):
    return {row["tau"]: row for row in run.sim(
        "train", "--cluster", "taihulight", "-n", processes, "--bytes",
        WEIGHTS, "--step-ms", step_ms, "--strategy", "decentralized-easgd",
        "--overlap", overlap, "--tau", "1..16", "--batch", IMAGES)}


def simulated(run, panels):
    rows, curves, step_ms = [], [], None
    for processes in run.points((8,) if run.smallest else PROCESSES):
        if step_ms is None:
            exchange = simulate(run, processes, 1, "off")[1]
            step_ms = exchange["exchange_ms"] / RATIO
        after, beside = (simulate(run, processes, step_ms, overlap)
                         for overlap in ("off", "on"))
        for tau in TAUS:
            rows.append((
                SIMULATED, processes, processes * IMAGES, tau,
                f"81.01 %, {ABSTRACT}" if (processes, tau) == (512, 8) else "",
                model(tau),
                f"{after[tau]['exchange_ms']:.1f}",
                f"{100 * after[tau]['efficiency']:.1f} %",
                f"{100 * beside[tau]['efficiency']:.1f} %",
                f"{after[tau]['images_per_s']:.0f}"))
        curves += [curve(f"{processes} processes, after the step", [
            (t, 100 * r["efficiency"]) for t, r in after.items()])]
        if processes == 512:
            curves += [curve("512 processes, beside it", [
                (t, 100 * r["efficiency"]) for t, r in beside.items()]),
                curve(f"swFLOW, {ABSTRACT}", [(8, 81.01)])]
    panels.append({
        "subtitle": "Left: simulated on taihulight; right: 2 ranks, measured",
        "x_label": "tau", "y_label": "efficiency", "x": "numbers",
        "y": "percent", "series": curves})
    run.table(("processes", "batch", "tau", "swFLOW", "the model",
               "exchange ms", "after the step", "beside the next", "images/s"), rows)


def one(run, strategy, tau):
    """Of steps that have warmed up, whole periods: their mean milliseconds,
    those that waited for the exchange, and the accuracy at the end."""
    steps, final = run.train(
        2, "--net", "lenet", "--data", "fashion-mnist", "--batch", 64, "--lr",
        0.02, "--momentum", 0.9, "--steps", STEPS, "--strategy", strategy,
        "--tau", tau, network=("--rate", "1Gbit"))
    later = steps[16:]
    return (statistics.fmean(row["step_ms"] for row in later),
            statistics.fmean(row["step_ms"] * row["comm_share"]
                             for row in later), final["accuracy"])


def measured(run, panels):
    rows, points = [], {}
    for tau, strategy in run.points([(tau, strategy) for tau in TAUS
                                     for strategy in MEASURED_BY]):
        try:
            step_ms, waits_ms, accuracy = one(run, strategy, tau)
        except Skip as why:
            run.skipped = str(why)
            return
        percent = 100 * (1 - waits_ms / step_ms)
        points.setdefault(strategy, []).append((tau, percent))
        rows.append((MEASURED, strategy, tau, f"{step_ms:.1f}",
                     f"{waits_ms:.1f}", f"{percent:.1f} %", model(tau),
                     f"{100 * accuracy:.1f} %"))
    run.say(f"Two ranks, {STEPS} steps of 64 images each; the accuracy is "
            "that after them:")
    run.table(("strategy", "tau", "step ms", "of it waiting ms", "efficiency",
               "the model", "test accuracy"), rows)
    panels.append({"x_label": "tau", "y_label": "efficiency", "x": "numbers",
                   "y": "percent", "series": [
                       curve(f"{name}, measured", found)
                       for name, found in points.items()]})


def main():
    run, panels = Run(__doc__), []
    simulated(run, panels)
    measured(run, panels)
    run.picture(*panels)
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
