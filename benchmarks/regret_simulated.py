#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far the library's choice is from the best candidate, simulated.

    benchmarks/regret_simulated.py [--build build] [--quick] [--json FILE]
                                   [--collective allreduce]

On 8 clusters, with 6 numbers of ranks and 10 sizes each: what the library would
choose before it has learned anything (from prices interpolated between a few
rehearsed sizes), over the least of all candidates, each simulated at the very
size with as many segments as serve it best; where hosts have several ranks,
those by hosts are among them. All times are simulated, so they
depend on no machine. Ends with status 1 if fewer cells than --least per cent
are within 1.10.
"""
import argparse
import concurrent.futures
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from simulator import simulate  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHIN = 1.10

# Ranks, and ranks on each host: flat and grouped, powers of two and others,
# as many as the cluster's hosts allow.
GRID = {
    "dragonfly": ((8, 1), (24, 1), (64, 1), (100, 1), (128, 4), (256, 1)),
    "ethernet_100g": ((8, 1), (16, 1), (32, 1), (64, 2), (96, 4), (256, 8)),
    "ethernet_10g": ((6, 1), (12, 1), (24, 1), (32, 1), (48, 2), (128, 4)),
    "fat_tree_3level": ((16, 1), (32, 1), (60, 1), (64, 4), (128, 1),
                        (256, 1)),
    "knl_cori": ((8, 1), (16, 4), (32, 1), (64, 1), (128, 4), (240, 4)),
    "taihulight": ((8, 1), (32, 1), (64, 1), (200, 1), (256, 1), (320, 1)),
    "tianhe3_ft2000plus": ((8, 1), (16, 8), (64, 8), (96, 1), (128, 8),
                           (256, 8)),
    "tianhe3_mt2000plus": ((8, 4), (24, 4), (32, 1), (64, 4), (128, 1),
                           (256, 4)),
}
QUICK = {
    "dragonfly": ((24, 1),),
    "ethernet_10g": ((12, 1), (48, 2)),
    "knl_cori": ((32, 1), (16, 4)),
    "tianhe3_ft2000plus": ((64, 8),),
}
MIN_BYTES, MAX_BYTES, FACTOR = 64, 16 << 20, 4


def candidates(options, cluster, nranks, ranks_per_host):
    """The report of coll_sim on all candidates at all sizes."""
    return simulate(options.build, options.collective, "--cluster", cluster, "-n",
                    nranks, "--ranks-per-host", ranks_per_host, "-b",
                    options.min_bytes, "-e", MAX_BYTES, "-f", FACTOR, "--algo",
                    "all", "--threads", 1)


def name_of(row):
    return (f"{row['algorithm']}/{row['rank_order']}/"
            f"{row['segments']}")


def cells_of(cluster, nranks, ranks_per_host, report):
    """One for each size; rows stand by time, the fastest first."""
    cells = []
    for size in sorted({r["bytes"] for r in report["results"]}):
        rows = [r for r in report["results"] if r["bytes"] == size]
        chosen = next((r for r in rows if r["chosen"]), None)
        if chosen is None:
            sys.exit(f"regret_simulated.py: nothing is chosen on {cluster} "
                     f"for {size} bytes on {nranks} ranks")
        cells.append({
            "cluster": cluster, "nranks": nranks,
            "ranks_per_host": ranks_per_host, "bytes": size,
            "chosen": name_of(chosen), "chosen_us": chosen["simulated_us"],
            "best": name_of(rows[0]), "best_us": rows[0]["simulated_us"],
            "ratio": chosen["simulated_us"] / rows[0]["simulated_us"]})
    return cells


def run(options, grid):
    """Cells, and what pricing each layout took."""
    jobs = [(c, n, k) for c in grid for n, k in grid[c]]
    cells, pricing = [], []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for job, report in zip(jobs, pool.map(
                lambda job: candidates(options, *job), jobs)):
            found = cells_of(*job, report)
            cells += found
            price = report["pricing"][0]
            pricing.append(dict(price, cluster=job[0], ranks_per_host=job[2]))
            bad = sum(cell["ratio"] > WITHIN for cell in found)
            print(f"# {job[0]}, {job[1]} ranks, {job[2]} a host: {bad} of "
                  f"{len(found)} cells beyond {WITHIN}; priced by "
                  f"{price['rehearsals']} rehearsals in "
                  f"{price['cpu_s']:.2f} s", file=sys.stderr)
    return cells, pricing


def print_cells(cells):
    print("| cluster | ranks | a host | bytes | chosen | us | best | us | "
          "ratio |")
    print("| --- | ---: | ---: | ---: | --- | ---: | --- | ---: | ---: |")
    for c in sorted(cells, key=lambda c: -c["ratio"]):
        print(f"| {c['cluster']} | {c['nranks']} | {c['ranks_per_host']} | "
              f"{c['bytes']} | {c['chosen']} | {c['chosen_us']:.2f} | "
              f"{c['best']} | {c['best_us']:.2f} | {c['ratio']:.3f} |")


def print_summary(cells, grid):
    print("\n| cluster | ranks (a host) | cells | within 1.02 | within 1.10 | "
          "worst |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for cluster, ranks in grid.items():
        ratios = [c["ratio"] for c in cells if c["cluster"] == cluster]
        print(f"| {cluster} | "
              + ", ".join(f"{n}" if k == 1 else f"{n} ({k})"
                          for n, k in ranks)
              + f" | {len(ratios)} | {sum(r <= 1.02 for r in ratios)} | "
              f"{sum(r <= WITHIN for r in ratios)} | {max(ratios):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--collective", default="allreduce")
    parser.add_argument("--clusters", help="of the grid, separated by commas")
    parser.add_argument("--quick", action="store_true",
                        help="a few small ones, for the tests")
    parser.add_argument("--min-bytes", type=int, default=MIN_BYTES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--least", type=float, default=98,
                        help="per cent of the cells; default %(default)s")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    grid = QUICK if options.quick else GRID
    if options.clusters:
        names = options.clusters.split(",")
        for name in names:
            if name not in grid:
                sys.exit(f"regret_simulated.py: no cluster {name}; there are "
                         + ", ".join(grid))
        grid = {name: grid[name] for name in names}
    cells, pricing = run(options, grid)
    beyond = [c for c in cells if c["ratio"] > WITHIN]
    print_cells(beyond)
    print_summary(cells, grid)
    good = len(cells) - len(beyond)
    percent = 100 * good / len(cells)
    print(f"\n{good} of {len(cells)} cells within {WITHIN:.2f}: "
          f"{percent:.1f} %, wanted {options.least:g} %; all simulated")
    if options.json:
        options.json.write_text(json.dumps(
            {"format": "regret_simulated 1", "cells": cells,
             "pricing": pricing}, indent=1), encoding="utf-8")
    return percent < options.least


if __name__ == "__main__":
    sys.exit(main())
