#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How near predictions are to what is then measured, where links are limited.

    benchmarks/predict.py [--build build] [--layouts flat4,...] [--sizes 1M,16M]
                          [--algorithms ring,...] [--tap]

For each layout coll_tune measures the links, nine times, and then one job for
each algorithm predicts and runs each size, forced, without learning
(COLL_ADAPT=off). All on tests/netlab, so root is needed. Prints a row per cell,
with the groups of hosts that were found, and how many cells are within 25 %.
With --tap it is a test: all must be. Where a cell is not, links are measured
anew and the middle one of three jobs counts, six times in all; where other
programs take the processors it is skipped.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True
import tap  # noqa: E402

WITHIN = 1.25

LAYOUTS = {  # options of netlab
    "flat4": "--hosts 4 --rate 1Gbit",
    "trunk4": "--hosts 4 --groups 2 --rate 1Gbit --trunk-rate 250Mbit",
    "flat8": "--hosts 8 --rate 500Mbit",  # what two processors can send
    "trunk8": "--hosts 8 --groups 2 --rate 1Gbit --trunk-rate 250Mbit",
    "flat4x2": "--hosts 4 --ranks-per-host 2 --rate 1Gbit",
    "trunk4x2": "--hosts 4 --ranks-per-host 2 --groups 2 --rate 1Gbit "
                "--trunk-rate 250Mbit",
}
RETRIES = 6  # of cells that are not within, of all of a test together
ALGORITHMS = ["ring", "ring_segmented", "halving_doubling",
              "halving_doubling_near", "swing", "direct_scatter",
              "hierarchical", "double_binary_tree"]


def size(text):
    units = {"K": 1 << 10, "M": 1 << 20}
    digits = text.rstrip("KM")
    if not digits.isdigit() or len(text) - len(digits) > 1:
        raise argparse.ArgumentTypeError(
            f'found "{text}", valid is a number of bytes such as 65536 or 1M')
    return int(digits) * units.get(text[len(digits):], 1)


def each(kind, known=None):
    """A list with commas; of these words, if there are any."""
    def parse(text):
        words = text.split(",")
        for word in words:
            if known and word not in known:
                raise argparse.ArgumentTypeError(
                    f'found "{word}", valid are {", ".join(known)}')
        return [kind(word) for word in words]
    return parse


def lab(options, layout, words, adapts="off"):
    """Runs a program on all ranks; its stderr, or None: no such network here."""
    command = [ROOT / "tests/netlab/netlab", "--delay-switch",
               options.build / "delay_switch", "--timeout", options.timeout,
               "--env", f"COLL_ADAPT={adapts}", "--env", "COLL_LOG=probe:info",
               "--env", f"COLL_STORE={options.store}/links",
               *LAYOUTS[layout].split(), "--", options.build / words[0],
               *words[1:]]
    done = subprocess.run([str(word) for word in command], check=False,
                          stdout=subprocess.DEVNULL, text=True,
                          stderr=subprocess.PIPE)
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        raise SystemExit(f"predict.py: {layout} {' '.join(map(str, words))}: "
                         f"{done.stderr.strip()[-400:]}")
    return done.stderr


def calibrate(options, layout):
    """Forgets what was measured before; False: no such network here."""
    shutil.rmtree(f"{options.store}/links", ignore_errors=True)
    return lab(options, layout, ["coll_tune", "barrier", "-n", 1],
               adapts="on") is not None


def job(options, layout, algorithm):
    """Rows of coll_bench, of a new job."""
    out = pathlib.Path(options.store) / "out.json"
    told = lab(options, layout, [
        "coll_bench", "allreduce", "-b", min(options.sizes), "-e",
        max(options.sizes), "-f", options.factor, "-n", options.iterations,
        "-w", 1, "--algo", algorithm, "--json", out])
    report = json.loads(out.read_text(encoding="utf-8"))
    groups = re.findall(r"probe: \d+ hosts in (\d+) groups", told)
    for row in report["results"]:
        row["groups"] = int(groups[-1]) if groups else 0
        row["ratio"] = row["predicted_us"] / row["time_us"]["p50"]
    return report["results"]


def within(row):
    return 1 / WITHIN <= row["ratio"] <= WITHIN


def show(cell):
    print(f"{cell['layout']:9} {cell['bytes']:9} {cell['algorithm']:22} "
          f"{cell['predicted_ms']:10.2f} {cell['measured_ms']:10.2f} "
          f"{cell['ratio']:6.2f} {cell['groups']:6}"
          f"{'' if within(cell) else '  <--'}",
          flush=True)


def measure(options, layout, algorithm):
    cells = middle(options, layout, algorithm, options.rounds)
    while options.retries and not all(map(within, cells)):
        options.retries -= 1
        calibrate(options, layout)
        cells = middle(options, layout, algorithm, 3)
    return cells


def middle(options, layout, algorithm, rounds):
    """Cells of so many jobs, of each the middle one."""
    jobs = [job(options, layout, algorithm) for _ in range(rounds)]
    cells = []
    for rows in zip(*jobs):
        rows = sorted(rows, key=lambda row: row["ratio"])
        row = rows[(len(rows) - 1) // 2]
        cells.append({"layout": layout, "algorithm": algorithm,
                      "bytes": row["bytes"], "ratio": row["ratio"],
                      "predicted_ms": row["predicted_us"] / 1e3,
                      "measured_ms": row["time_us"]["p50"] / 1e3,
                      "groups": row["groups"]})
    return cells


def judge(good, cells):
    """Where others take processors that ranks wait for, nothing can be said."""
    if good < cells:
        tap.give_up(f"{good} of {cells} cells")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--build", type=pathlib.Path, default=ROOT / "build")
    add("--layouts", type=each(str, LAYOUTS), default=list(LAYOUTS),
        metavar="NAME,...", help=", ".join(LAYOUTS))
    add("--algorithms", type=each(str), default=ALGORITHMS, metavar="NAME,...",
        help="(default " + ",".join(ALGORITHMS) + ")")
    add("--sizes", type=each(size), default=[1 << 20, 1 << 22, 1 << 24],
        metavar="BYTES,...", help="in equal steps (default 1M,4M,16M)")
    add("--iterations", type=int, default=5, metavar="N",
        help="of each cell in a job (default 5)")
    add("--rounds", type=int, default=1, metavar="N",
        help="jobs for each cell, of which the middle one counts (default 1)")
    add("--timeout", type=int, default=120, metavar="SECONDS",
        help="for one job (default 120)")
    add("--json", type=pathlib.Path, metavar="FILE")
    add("--tap", action="store_true", help="be a test")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.retries = RETRIES if options.tap else 0
    steps = sorted(options.sizes)
    options.factor = steps[1] // steps[0] if len(steps) > 1 else 2
    if [steps[0] * options.factor ** i for i in range(len(steps))] != steps:
        parser.error("--sizes: valid are sizes each a whole multiple of the "
                     "one before, always the same, such as 1M,4M,16M")
    return options


def measure_all(options):
    """Cells; None: there can be no hosts here."""
    cells = []
    if not options.tap:
        print(f"{'layout':9} {'bytes':>9} {'algorithm':22} "
              f"{'predict/ms':>10} {'measure/ms':>10}  ratio groups")
    for layout in options.layouts:
        if not calibrate(options, layout):
            return None
        for algorithm in options.algorithms:
            found = measure(options, layout, algorithm)
            for cell in found:
                if options.tap:
                    print("# ", end="")
                show(cell)
            cells += found
    return cells


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as options.store:
        cells = measure_all(options)
    if cells is None:
        print("1..0 # SKIP there can be no hosts here" if options.tap else
              "predict.py: there can be no hosts here: see tests/netlab/netlab "
              "-- true")
        return 0 if options.tap else 77
    good = sum(map(within, cells))
    spread = statistics.median(abs(cell["ratio"] - 1) for cell in cells)
    print(f"{'# ' if options.tap else ''}{good} of {len(cells)} cells within "
          f"25 %; half are within {100 * spread:.0f} %")
    if options.json:
        options.json.write_text(json.dumps(
            {"format": "predict 1", "cells": cells}, indent=1),
            encoding="utf-8")
    return tap.run([("predictions are within 25 %",
                     lambda: judge(good, len(cells)))]) if options.tap else 0


if __name__ == "__main__":
    sys.exit(main())
