#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Communication's share of elastic averaging, from 87 % down

You, Buluc and Demmel (SC17) state in the abstract that communication was 87 % of the
time of the original EASGD on 8 GPUs and 14 % of that of Sync EASGD3, which is 5.3
times as fast; from the text, Sync EASGD1 (trees) is 3.7 times as fast as the original,
2 (centre and weights on the GPUs) 1.3 times as fast as 1, and 3 (overlap) 1.1 times
as fast as 2.

Measured: LeNet on Fashion-MNIST, a batch of 64 images a worker, the centre exchanged
at every step, no momentum. The rate of ports is such that the original spends 85 to
89 % in communication; everything else is measured at this rate. In the original
(easgd-round-robin --original-strict) workers take turns, so all they compute counts,
and the rest is communication; in the others the share is what rank 0 waits. Two
shapings: a host for each rank, all ports alike; and as in the paper, where GPUs reach
one another without the host's memory: workers on one host and the centre apart, on
another. There Sync EASGD1, whose rank 0 has the centre, has that rank on the other
host, and 2 and 3 need no other host. This machine computes for all: with more workers
than processors, shares and speed-ups of all but the original would be better with a
processor each.

Simulated: 249 MB on 8 hosts and one for the centre, links of 8 GB/s that are all
alike; a step takes so long that the original's share is 87 %.

Status 1: measured with the centre apart and two workers, the original is outside of 85
to 89 %, or Sync EASGD3 is less than three times as fast, or waits 40 % of its time or
more. --limits: only these two are measured."""
import statistics
import sys

sys.dont_write_bytecode = True
from paper import (ABSTRACT, MEASURED, SIMULATED, TEXT,  # noqa: E402
                   Run, Skip, curve)

BATCH, SHARE = 64, 0.87
WEIGHTS = 431080 * 4
LOWEST, HIGHEST = 0.85, 0.89
ROUND = ("easgd-round-robin", "--original-strict")
# Strategy, its options: the paper's share, its speed over the original, and over what
# BEFORE says.
METHODS = {ROUND: (f"87 %, {ABSTRACT}", "1", ""),
           ("easgd-round-robin",): ("", "", ""),
           ("sync-easgd1",): ("", f"3.7, {TEXT}", f"3.7, {TEXT}"),
           ("sync-easgd2",): ("", f"4.8, {TEXT}", f"1.3, {TEXT}"),
           ("sync-easgd3",): (f"14 %, {ABSTRACT}", f"5.3, {ABSTRACT}",
                              f"1.1, {TEXT}")}
BEFORE = {("sync-easgd1",): ROUND, ("sync-easgd2",): ("sync-easgd1",),
          ("sync-easgd3",): ("sync-easgd2",)}
APART, ALL = "the centre apart", "every port"
SHAPINGS = ((APART, 2), (APART, 4), (ALL, 4))  # with so many workers
LAST = ("sync-easgd3",)
LIMIT_SHARE, LIMIT_FASTER = 0.40, 3  # of the last one, in the first of them


def hosts_of(shaping, workers, method):
    """netlab's words; the server is the last rank."""
    serves = method[0] == "easgd-round-robin"
    if shaping == ALL:
        return ["--hosts", workers + serves]
    first = 0 if method[0] == "sync-easgd1" else 1
    places = [first, *[1] * (workers - 1), *[0] * serves]
    return ["--hosts", 2, "--place", ",".join(map(str, places))]


def learning(steps):
    return ["--net", "lenet", "--data", "fashion-mnist", "--batch", BATCH,
            "--lr", 0.05, "--steps", steps]


def computing_ms(steps):
    return statistics.median(row["parts_ms"]["compute"]
                             + row["parts_ms"]["update"] for row in steps)


def measure(run, shaping, workers, method, rate, nsteps):
    """Milliseconds of a step of all workers, the share, and the accuracy."""
    steps, final = run.train(
        None, *learning(nsteps), "--strategy", *method,
        network=[*hosts_of(shaping, workers, method), "--rate",
                 f"{rate:.0f}Mbit"])
    later = steps[len(steps) // 4:]
    step_ms = statistics.median(row["step_ms"] for row in later)
    if method == ROUND:
        share = 1 - workers * computing_ms(later) / step_ms
    else:
        share = statistics.median(row["comm_share"] for row in later)
    return step_ms, share, final["accuracy"]


def find_rate(run, shaping, workers):
    """Mbit/s at which the original communicates for 87 % of its time, and
    what it then took: first by what one worker computes, then by what was
    found; of a few tries the best."""
    steps, _ = run.train(1, *learning(20))
    rate = (2 * WEIGHTS * 8e-3 * (1 - SHARE) / SHARE
            / computing_ms(steps[5:]))
    tries = []
    while len(tries) < 4:
        found = measure(run, shaping, workers, ROUND, rate, 12)
        tries.append((abs(found[1] - SHARE), rate, found))
        if LOWEST <= found[1] <= HIGHEST:
            break
        rate *= found[1] / (1 - found[1]) * (1 - SHARE) / SHARE
    _, rate, found = min(tries)
    return rate, found


def over_before(method, took):
    """How many times as fast as the one that the paper compares with."""
    before = took.get(BEFORE.get(method))
    return f"{before / took[method]:.2f}" if before else "-"


def measured(run):
    """The shares of each shaping, and whether the limits were held."""
    rows, shares, verdict, at, took = [], {}, None, {}, {}
    points = [(where, method) for where in SHAPINGS for method in METHODS]
    if run.options.limits:
        points = [(SHAPINGS[0], ROUND), (SHAPINGS[0], LAST)]
    for where, method in run.points(points):
        try:
            if method == ROUND:
                at[where] = find_rate(run, *where)
            rate, original = at[where]
            step_ms, share, accuracy = (
                original if method == ROUND
                else measure(run, *where, method, rate, 60))
        except Skip as why:
            run.skipped = str(why)
            break
        faster = original[0] / step_ms
        took.setdefault(where, {})[method] = step_ms
        shares.setdefault(where, []).append(
            (1 + list(METHODS).index(method), 100 * share))
        rows.append((MEASURED, where[0], where[1], f"{rate:.0f}",
                     " ".join(method), f"{step_ms:.1f}",
                     f"{100 * share:.1f} %", METHODS[method][0],
                     f"{faster:.2f}", METHODS[method][1],
                     over_before(method, took[where]), METHODS[method][2],
                     "-" if method == ROUND else f"{100 * accuracy:.1f} %"))
        if (where, method) == (SHAPINGS[0], LAST):
            verdict = faster > LIMIT_FASTER and share < LIMIT_SHARE
    run.table(("shaping", "workers", "Mbit/s", "strategy", "ms a step",
               "communication", "the paper", "faster", "the paper",
               "than the one before", "the paper", "test accuracy"), rows)
    run.say("Accuracies are those after 60 steps; the original runs for 12.")
    outside = {where for where, (_, original) in at.items()
               if not LOWEST <= original[1] <= HIGHEST}
    if outside:
        run.say("NOT where it should be: an original's share is outside of "
                "85 to 89 %. The machine did other things; measure again.")
    if verdict is not None:
        run.say(f"With two workers and the centre apart, sync-easgd3 was "
                f"{'' if verdict else 'NOT '}more than {LIMIT_FASTER} times "
                "as fast as the original with a share below "
                f"{100 * LIMIT_SHARE:.0f} %.")
    return shares, (verdict is None
                    or verdict and SHAPINGS[0] not in outside)


def simulated(run):
    """The original: each of 8 sends to the centre and gets it back, and
    nothing else goes on meanwhile."""
    workers, size, cluster = 8, 249 * 10**6, "node:9 (10us 8GB/s)"
    if run.left() <= 0:
        run.left_out += 1
        return []
    turns = sum(run.sim(kind, "--cluster", cluster, "-n", workers + 1, "-b",
                        size * (workers + 1))[0]["simulated_us"] / 1e3
                for kind in ("gather", "scatter"))
    step_ms = turns / workers * (1 - SHARE) / SHARE
    original = workers * step_ms + turns
    rows = [(SIMULATED, ROUND[0], f"{original:.1f}", f"{100 * SHARE:.1f} %",
             METHODS[ROUND][0], "1.00", "1", "-", "")]
    shares, took = [100 * SHARE], {ROUND: original}
    for method in list(METHODS)[2:]:
        row, = run.sim("train", "--cluster", cluster, "-n", workers, "--bytes",
                       size, "--step-ms", step_ms, "--strategy", method[0])
        shares.append(100 * row["comm_share"])
        took[method] = row["step_ms"]
        rows.append((SIMULATED, method[0], f"{took[method]:.1f}",
                     f"{shares[-1]:.1f} %", METHODS[method][0],
                     f"{original / took[method]:.2f}", METHODS[method][1],
                     over_before(method, took), METHODS[method][2]))
    run.say("Eight workers and 249 MB:")
    run.table(("strategy", "ms a step", "communication", "the paper",
               "faster", "the paper", "than the one before", "the paper"), rows)
    return shares


def main():
    run = Run(__doc__, lambda parser: parser.add_argument(
        "--limits", action="store_true", help="measure what status 1 is for"))
    shares, fine = measured(run)
    by_link = simulated(run)
    series = [curve(f"{workers} workers, {shaping}", found)
              for (shaping, workers), found in shares.items()]
    if by_link:
        series.append(curve("8 workers, simulated", zip((1, 3, 4, 5), by_link)))
    series.append(curve(f"the paper, {ABSTRACT}", [(1, 87), (5, 14)]))
    run.picture({"subtitle": "1: original, 2: round robin, workers ahead, 3 "
                 "to 5: sync-easgd1 to 3", "x_label": "strategy",
                 "y_label": "communication", "x": "numbers", "y": "percent",
                 "series": series})
    status = run.end()
    return status if fine else 1


if __name__ == "__main__":
    sys.exit(main())
