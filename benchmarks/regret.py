#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far the library's choice is from the best candidate, measured.

    benchmarks/regret.py [--build build] [--rounds 3] [--layouts flat4,...]

For each layout and size: what the library takes when it chooses and has learned
(--warm operations before the timed ones), over what the best candidate takes when
it is forced: the median of the ratios of several jobs, in each of which both are
timed. Beside it the same with the chosen algorithm forced as well, which leaves
out what trying others costs and what a job does to one algorithm twice.

Candidates with the same plans are one. A short look at all leaves those that may
be best; which of them is best is found in jobs of its own, as the least of many
noisy figures is less than any of them would be again. Hosts are network
namespaces (tests/netlab), so root is needed for all layouts but those of one
host.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Name -> options of netlab, or the number of ranks on this host; sizes.
SIZES = [64 << 2 * i for i in range(10)]
LAYOUTS = {
    "local2": (2, SIZES),
    "local4": (4, SIZES),
    "flat4": ("--hosts 4", SIZES),
    "trunk": ("--hosts 4 --groups 2 --rate 1Gbit --trunk-rate 250Mbit", SIZES),
    "2x2x2": ("--hosts 4 --ranks-per-host 2 --groups 2 --rate 1Gbit "
              "--trunk-rate 250Mbit", SIZES),
    "slow": ("--hosts 4 --rate 100Mbit --delay 5ms", SIZES),
}


LEARNS = 40   # operations, of long ones, before the choice is timed
AT_LEAST = 7  # that are timed then: one of them may be a trial of another


def iterations(us, seconds, most):
    """As many as take about so long; three at least, or one if it is long."""
    return max(3 if us < 3e5 else 1, min(most, int(1e6 * seconds / us)))


def guess(layout, size):
    """Microseconds of an operation, roughly, before one was timed."""
    rate = {"slow": 10e6, "trunk": 25e6, "2x2x2": 25e6}.get(layout, 500e6)
    latency = 0.02 if layout == "slow" else 0.0005
    return 1e6 * (2.5 * size / rate + latency)


def launch(options, layout, size, algorithms, folder, n, warm, env=()):
    """The rows of coll_bench's report, and what the job printed."""
    out = pathlib.Path(folder) / "out.json"
    out.unlink(missing_ok=True)
    how = LAYOUTS[layout][0]
    start = ([str(options.build / "collrun"), "-n", str(how)]
             if isinstance(how, int)
             else [str(ROOT / "tests/netlab/netlab"), "--delay-switch",
                   str(options.build / "delay_switch"), "--timeout",
                   str(options.timeout),
                   *(word for e in env for word in ("--env", e)),
                   *how.split(), "--"])
    command = start + [str(options.build / "coll_bench"), "allreduce",
                       "-b", str(size), "-e", str(size), "-n", str(n),
                       "-w", str(warm), "--json", str(out)]
    command += ["--algo", algorithms]
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              env=os.environ | dict(e.split("=") for e in env),
                              timeout=options.timeout + 30)
        report = json.loads(out.read_text(encoding="utf-8"))
    except (subprocess.SubprocessError, OSError) as error:
        detail = getattr(error, "stdout", None) or ""
        print(f"# {layout} {size} {algorithms}: {error} {detail[-200:]}",
              file=sys.stderr)
        return [], ""
    return report["results"], done.stdout


def run(options, layout, size, algorithms, folder, n, warm):
    """Names and p50 in microseconds, in the order asked for; of auto the name is
    what was chosen."""
    rows, _ = launch(options, layout, size, ",".join(algorithms), folder, n, warm)
    return [(r["algorithm"], r["time_us"]["p50"]) for r in rows]


def find_twins(options, layout, size, folder):
    """Name -> the name of the candidate that has the same plans, in whatever
    order of ranks. Inside one host there are other means than plans."""
    if isinstance(LAYOUTS[layout][0], int):
        return {}
    _, said = launch(options, layout, size, "auto", folder, 1, 0,
                     ["COLL_EXPLAIN=1"])
    tables = re.findall(r"\[0\].*allreduce of (\d+) bytes on .*\n"
                        r"((?:\[0\].*explain: [ >] .*\n)*)", said)
    for told, table in tables: # one for all sizes of an octave
        if int(told).bit_length() == size.bit_length():
            twins = dict(re.findall(
                r"explain:[ >]+(\w+) .* the same plans as (\w+)", table))
            own = re.findall(
                r"explain:[ >]+(\w+)(?!.*the same plans as) ", table)
            return {k: twins[k] for k in twins if k not in own}
    sys.exit(f"regret.py: no explanation of {layout} {size}:\n{said}")


def screen(options, layout, size, twins, folder):
    """What the best takes in a short look at all candidates, and those that may
    be the best: within 1.5 times of it, six at most."""
    n = iterations(guess(layout, size), 0.5, 50)
    first = run(options, layout, size, ["all"], folder, n, min(n, 2))
    least = min((us for _, us in first), default=0)
    near = sorted((us, name) for name, us in first
                  if us < 1.5 * least and name not in twins)
    return least, [name for _, name in near[:6]], dict(first)


def compare(options, layout, size, least, forced, folder, rounds):
    """Jobs in which the choice and the forced ones are timed: of each [(name,
    us)], the choice first. It runs first or last in turn, as what a machine does
    changes from job to job, and within one."""
    n = iterations(least, options.seconds, 200)
    # A new job has learned nothing; what it pays for that is not asked here.
    warm = iterations(least, 2 * options.seconds, options.warm)
    long = least > 1e4 # the network's affair, so a job of its own is fair
    jobs = []
    for i in range(rounds):
        order = ["auto"] + forced if i % 2 == 0 else forced + ["auto"]
        rows = run(options, layout, size, forced if long else order, folder, n,
                   min(warm, 2) if long else warm)
        if long:
            order = forced + ["auto"]
            rows += run(options, layout, size, ["auto"], folder,
                        max(n, AT_LEAST), LEARNS)
        if len(rows) == len(order):
            at = order.index("auto")
            jobs.append([rows[at]] + rows[:at] + rows[at + 1:])
    return jobs


def times(jobs, name):
    """Of a forced candidate, job by job."""
    return [dict(job[1:])[name] for job in jobs]


def measure(options, layout, size, folder):
    """One cell: its ratios, and what they are of."""
    twins = find_twins(options, layout, size, folder)
    least, near, first = screen(options, layout, size, twins, folder)
    if not near:
        return None
    rounds = options.rounds if least < 3e5 else min(options.rounds, 2)
    found = compare(options, layout, size, least, near, folder, rounds)
    if not found:
        return None
    best = min(near, key=lambda name: statistics.median(times(found, name)))
    usual = statistics.mode(job[0][0] for job in found)
    usual = twins.get(usual, usual)
    jobs = compare(options, layout, size, least,
                   [best] if usual == best else [best, usual], folder, rounds)
    if not jobs:
        return None
    names, chosen = zip(*(job[0] for job in jobs))
    reference, alone = times(jobs, best), times(jobs, usual)
    return {"layout": layout, "bytes": size,
            "chosen": statistics.mode(names), "chosen_each": names,
            "chosen_us": statistics.median(chosen), "best": best,
            "best_us": statistics.median(reference),
            "ratio": statistics.median(
                mine / other for mine, other in zip(chosen, reference)),
            "forced_ratio": statistics.median(
                mine / other for mine, other in zip(alone, reference)),
            "chosen_all_us": chosen, "best_all_us": reference,
            "jobs_to_find_best": found, "twins": twins, "screened_us": first}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=400,
                        help="operations before those that are timed, at most")
    parser.add_argument("--seconds", type=float, default=0.5,
                        help="to time an algorithm in one round")
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--sizes", help="bytes, separated by commas")
    parser.add_argument("--timeout", type=int, default=300,
                        help="seconds for one job (default 300)")
    parser.add_argument("--budget-seconds", type=float, default=1e9)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.build = options.build.resolve()
    end = time.monotonic() + options.budget_seconds
    cells = []
    print(f"{'layout':8} {'bytes':>9} {'chosen':26} {'us':>11} "
          f"{'best':26} {'us':>11} ratio forced")
    with tempfile.TemporaryDirectory() as folder:
        for layout in options.layouts.split(","):
            if layout not in LAYOUTS:
                sys.exit(f"regret.py: no layout {layout}; there are "
                         + ", ".join(LAYOUTS))
            sizes = ([int(s) for s in options.sizes.split(",")]
                     if options.sizes else LAYOUTS[layout][1])
            for size in sizes:
                if time.monotonic() > end:
                    print(f"# no time is left for {layout} {size}")
                    continue
                cell = measure(options, layout, size, folder)
                if not cell:
                    continue
                cells.append(cell)
                print(f"{layout:8} {size:9} {cell['chosen']:26} "
                      f"{cell['chosen_us']:11.1f} {cell['best']:26} "
                      f"{cell['best_us']:11.1f} {cell['ratio']:5.2f} "
                      f"{cell['forced_ratio']:6.2f}", flush=True)
    good, right = (sum(cell[ratio] <= 1.1 for cell in cells)
                   for ratio in ("ratio", "forced_ratio"))
    print(f"{good} of {len(cells)} cells within 1.10; with the chosen algorithm "
          f"forced, {right}")
    if options.json:
        options.json.write_text(json.dumps(
            {"format": "regret 4", "cells": cells}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
