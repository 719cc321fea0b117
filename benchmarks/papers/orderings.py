#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which method is first at an accuracy, and which reach 88 %

You, Buluc and Demmel (SC17) state in the abstract that their Async EASGD, Async
MEASGD and Hogwild EASGD are faster than Async SGD, Async MSGD and Hogwild SGD, and
Sync EASGD faster than the original EASGD; Sync EASGD and Hogwild EASGD are fastest,
about alike. The accuracies and seconds of their figures are not known.

Measured: LeNet on Fashion-MNIST, four workers with 64 images each and, where there
is one, a server, each a host with a port of 1 Gbit/s; this machine computes for all.
Each method has the highest learning rate of 0.1, 0.05, 0.02, 0.01, 0.005 and 0.002
with which it did not diverge in tries of two seeds. Time to accuracy: seconds of training until, of the last
3200 images that were learned from, so many were right; the median of the seeds. The
test accuracy is that after the last step. Then all methods without a network, on one
host, each until a test at the end of an epoch says 88 %. First come all methods
with one seed, then those without a network, then other seeds of those that the paper
orders, while there is time: 1200 s suffice for all on two processors."""
import statistics
import sys

sys.dont_write_bytecode = True
from paper import (ABSTRACT, MEASURED, Run, Skip, curve, spans)  # noqa: E402

WORKERS, BATCH, WINDOW = 4, 64, 3200
TARGET, CONVERGED, STEPS, EPOCHS = 0.75, 0.88, 120, 10
PLAIN, ADDED, MOMENTUM = ("--lr", 0.05), ("--lr", 0.02), ("--momentum", 0.9)
# Their options. Changes of four workers add up where a server applies them.
METHODS = {
    "easgd-round-robin": PLAIN,
    "async-sgd": ADDED, "async-easgd": PLAIN,
    "async-msgd": ("--lr", 0.002, *MOMENTUM),
    "async-measgd": (*ADDED, *MOMENTUM),
    "hogwild-sgd": ADDED, "hogwild-easgd": PLAIN,
    "sync-easgd1": PLAIN, "sync-easgd2": PLAIN, "sync-easgd3": PLAIN,
    "decentralized-easgd": PLAIN, "parameter-server": PLAIN,
    "sync": ("--lr", 0.02, *MOMENTUM),
}
IN_STEP = ("sync", "sync-easgd1", "sync-easgd2", "sync-easgd3",
           "decentralized-easgd")
# Faster, slower.
PAIRS = (("async-easgd", "async-sgd"), ("async-measgd", "async-msgd"),
         ("hogwild-easgd", "hogwild-sgd"),
         ("sync-easgd3", "easgd-round-robin"))


def train(run, method, seed, *length, **more):
    return run.train(
        WORKERS + (method not in IN_STEP), "--net", "lenet", "--data",
        "fashion-mnist", "--batch", BATCH, *length, "--strategy", method,
        *METHODS[method], "--seed", seed, seconds=300, **more)


def path(steps):
    """Pairs of seconds and the accuracy of the last WINDOW images."""
    found, spent, recent = [], 0, []
    for row, n, seconds in spans(steps):
        spent += seconds
        recent.append((row["accuracy"], n))
        while sum(n for _, n in recent[1:]) * WORKERS * BATCH >= WINDOW:
            recent.pop(0)
        weight = sum(n for _, n in recent)
        if weight * WORKERS * BATCH >= WINDOW:
            found.append((spent, sum(a * n for a, n in recent) / weight))
    return found


def reached(points, target):
    return next((t for t, accuracy in points if accuracy >= target), None)


def words(value, form=".1f"):
    return "-" if value is None else format(value, form)


def median(values):
    """None counts as never."""
    found = sorted(values, key=lambda v: float("inf") if v is None else v)
    return found[len(found) // 2]


def orderings(run, seeds, methods, found, least):
    """Adds to method -> [(seconds to TARGET, path, final)], a seed each."""
    for seed, method in run.points([(seed, method) for seed in seeds
                                    for method in methods], least):
        try:
            steps, final = train(run, method, seed, "--steps",
                                 40 if run.smallest else STEPS,
                                 network=("--rate", "1Gbit"))
        except Skip as why:
            run.skipped = str(why)
            return
        points = path(steps)
        found.setdefault(method, []).append(
            (reached(points, TARGET), points, final))


def tell_orderings(run, found):
    rows = []
    for method, runs in sorted(found.items(), key=lambda row: median(
            [seconds for seconds, _, _ in row[1]]) or 1e9):
        seconds = [s for s, _, _ in runs]
        rows.append((
            MEASURED, method, " ".join(map(str, METHODS[method])), len(runs),
            words(median(seconds)), ", ".join(map(words, seconds)),
            f"{100 * statistics.median(f['accuracy'] for *_, f in runs):.1f} "
            "%", f"{statistics.median(f['images_per_s'] for *_, f in runs):.0f}"))
    run.say(f"{40 if run.smallest else STEPS} steps at 1 Gbit/s; seconds to "
            f"{TARGET:.0%}:")
    run.table(("method", "options", "seeds", "median s", "each",
               "test accuracy", "images/s"), rows)
    rows = []
    for fast, slow in PAIRS:
        if fast in found and slow in found:
            a, b = (median([s for s, _, _ in found[m]]) for m in (fast, slow))
            as_said = (a is not None and (b is None or a <= b))
            rows.append((MEASURED, f"{fast} before {slow}",
                         f"yes, {ABSTRACT}", words(a), words(b),
                         "neither" if a is b is None else
                         "yes" if as_said else "no"))
    if rows:
        run.say("The paper's orderings:")
        run.table(("ordering", "the paper", "median s", "of the other",
                   "here"), rows)


def convergence(run):
    rows = []
    for method in run.points(METHODS):
        epochs, seconds, accuracy = run.converge(
            CONVERGED, EPOCHS, lambda *words, method=method, **more: train(
                run, method, 1, *words, **more))
        rows.append((MEASURED, method, " ".join(map(str, METHODS[method])),
                     epochs or f"not in {1 if run.smallest else EPOCHS}",
                     words(seconds), f"{100 * accuracy:.2f} %"))
    return rows


def tell_convergence(run, rows):
    run.say(f"One host, {WORKERS} workers:")
    run.table(("method", "options", f"epochs to {CONVERGED:.0%}", "s",
               "test accuracy there"), rows)


def main():
    def more(parser):
        parser.add_argument("--seeds", type=int, default=5, metavar="N",
                            help="of each method that the paper orders "
                            "(default 5)")
    run, found = Run(__doc__, more), {}
    orderings(run, [1], METHODS, found, 1)
    rows = convergence(run)
    if not run.skipped:
        orderings(run, range(2, run.options.seeds + 1), sum(PAIRS, ()), found,
                  0)
    tell_orderings(run, found)
    tell_convergence(run, rows)
    run.picture({
        "subtitle": f"Error of the last {WINDOW} images, first seed, measured "
        "at 1 Gbit/s", "x_label": "seconds of training",
        "y_label": "error in %", "x": "numbers", "y": "numbers", "series": [
            curve(method, thin([(t, 100 * (1 - a)) for t, a in runs[0][1]]))
            for method, runs in found.items()]})
    return run.end()


def thin(points, most=24):
    """So many of them, evenly by the logarithm of time."""
    kept = []
    for t, y in points:
        if not kept or t >= kept[-1][0] * (points[-1][0] / points[0][0]) ** (
                1 / most):
            kept.append((t, y))
    return kept


if __name__ == "__main__":
    sys.exit(main())
