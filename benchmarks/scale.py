#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What more ranks cost: to start a job, to plan, and to rehearse a plan.

    benchmarks/scale.py [--build build] [--only real,planned] [--plot FILE.png]
                        [--json FILE]

Real: jobs of 2 to 64 ranks on this machine, the median of some runs of
coll_start. Planned: coll_sim --costs for each allreduce of a described cluster,
a process each, so that its memory is that of one candidate. All of it is
measured here; that the cluster is only described does not matter to how long
its plans take. Each quantity y over n ranks gets the law y = a n^b by least
squares of the logarithms, and r^2 of that line. Writes Markdown.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from simulator import ENV, simulate  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
REAL = {"shared memory": ({}, (2, 4, 8, 16, 32, 64)),
        "ucx": ({"COLL_TRANSPORT": "ucx"}, (2, 4, 8, 16, 32, 64))}
# JSON key, heading, factor
REAL_COLUMNS = (("init_s", "init ms", 1e3), ("first_s", "first ms", 1e3),
                ("later_s", "later us", 1e6),
                ("resident_kib", "resident MiB", 1 / 1024),
                ("share_kib", "share MiB", 1 / 1024))
PLANNED_RANKS = (64, 256, 1024, 4096, 16384, 40960)
PLANNED_COLUMNS = (("plan_us", "plan us", 1), ("plan_bytes", "plan KiB",
                                               1 / 1024),
                   ("rehearse_ms", "rehearse ms", 1),
                   ("rehearse_mib", "rehearse MiB", 1))
BYTES = 65536


def stop(text):
    sys.exit(f"scale.py: {text}")


def law(points):
    """(a, b, r squared) of y = a n^b; None for fewer than three points."""
    points = [(math.log(n), math.log(y)) for n, y in points if y > 0]
    if len(points) < 3:
        return None
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    xx = sum((x - mean_x) ** 2 for x, _ in points)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in points)
    yy = sum((y - mean_y) ** 2 for _, y in points)
    slope = xy / xx
    return (math.exp(mean_y - slope * mean_x), slope,
            xy * xy / (xx * yy) if yy > 0 else 1.0)


def law_text(points):
    found = law(points)
    if not found:
        return "-"
    return f"{found[0]:.3g} n^{found[1]:.2f} (r² {found[2]:.3f})"


# --- real ranks --------------------------------------------------------------

def start(options, nranks, settings):
    """The line of coll_start, or None if the job failed."""
    command = [str(options.build / "collrun"), "-n", str(nranks),
               str(options.build / "coll_start")]
    done = subprocess.run(command, env={**ENV, "COLL_STORE": "off",
                                        **settings},
                          text=True, capture_output=True, check=False,
                          timeout=options.timeout)
    if done.returncode:
        print(f"# {nranks} ranks: {done.stderr.strip()[-300:]}",
              file=sys.stderr)
        return None
    return json.loads(done.stdout)


def measure_real(options):
    rows = []
    for transport, (settings, numbers) in REAL.items():
        for nranks in (n for n in numbers if n <= options.most_real):
            runs = [r for r in (start(options, nranks, settings)
                                for _ in range(options.rounds)) if r]
            if not runs:
                stop(f"no job of {nranks} ranks ({transport}) came through")
            rows.append({"transport": transport, "nranks": nranks,
                         "runs": len(runs)}
                        | {key: statistics.median(r[key] for r in runs)
                           for key, _, _ in REAL_COLUMNS})
    return rows


def print_real(rows):
    print("Measured: coll_comm_init(), the first allreduce of 8 bytes, the "
          "best of 20 later ones,\nand the memory that all this added to a "
          "rank (share: what several ranks map counts\nin parts); the slowest "
          "or largest rank, the median of the runs.\n")
    print("| transport | ranks | runs | "
          + " | ".join(head for _, head, _ in REAL_COLUMNS) + " |")
    print("| --- |" + " ---: |" * (2 + len(REAL_COLUMNS)))
    for row in rows:
        print(f"| {row['transport']} | {row['nranks']} | {row['runs']} | "
              + " | ".join(f"{row[key] * factor:.3g}"
                           for key, _, factor in REAL_COLUMNS) + " |")
    print("\n| transport | " + " | ".join(h for _, h, _ in REAL_COLUMNS)
          + " |\n| --- |" + " --- |" * len(REAL_COLUMNS))
    for transport in dict.fromkeys(row["transport"] for row in rows):
        mine = [r for r in rows if r["transport"] == transport]
        print(f"| {transport} | " + " | ".join(
            law_text([(r["nranks"], r[key] * factor) for r in mine])
            for key, _, factor in REAL_COLUMNS) + " |")
    print()


# --- plans and rehearsals ----------------------------------------------------

def run_sim(options, nranks, algorithm, *more):
    """The report and the most memory of one coll_sim, in MiB."""
    report = simulate(options.build, "allreduce", "--costs", "--cluster",
                      options.cluster, "-n", nranks, "-b", BYTES, "--segments",
                      1, "--order", "block", "--threads", 1, "--algo",
                      algorithm, *more)
    return report["results"], report["peak_kib"] / 1024


def measure_planned(options):
    names = [row["algorithm"] for row in
             run_sim(options, options.planned[0], "all")[0]]
    rows = []
    _, without = run_sim(options, 2, "binomial_tree")
    for nranks in options.planned:
        for name in sorted(names):
            (row,), memory = run_sim(options, nranks, name)
            if "rehearse_ms" in row:
                row["rehearse_mib"] = max(memory - without, 0)
            rows.append(row)
            print(f"# {name}, {nranks} ranks", file=sys.stderr)
    return rows


def print_planned(options, rows):
    ends = options.planned[0], options.planned[-1]
    print(f"Measured: one rank's plan (the largest of 16 ranks), and the "
          f"rehearsal of all ranks of {options.cluster}\nonce, {BYTES} bytes, "
          "1 segment, one processor. -: of more messages than are "
          "rehearsed here.\n")
    for key, head, factor in PLANNED_COLUMNS:
        print(f"| {head} | " + " | ".join(f"{n}" for n in options.planned)
              + f" | law, {ends[0]} to {ends[1]} ranks |")
        print("| --- |" + " ---: |" * len(options.planned) + " --- |")
        for name in sorted({r["algorithm"] for r in rows}):
            mine = [(r["nranks"], r[key] * factor) for r in rows
                    if r["algorithm"] == name and key in r]
            found = dict(mine)
            print(f"| {name} | "
                  + " | ".join(f"{found[n]:.3g}" if n in found else "-"
                               for n in options.planned)
                  + f" | {law_text(mine)} |")
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default="real,planned")
    parser.add_argument("--rounds", type=int, default=5,
                        help="jobs for each row of real ranks")
    parser.add_argument("--most-real", type=int, default=64,
                        help="the largest job; default %(default)s")
    parser.add_argument("--cluster", default="taihulight")
    parser.add_argument("--planned", default=PLANNED_RANKS,
                        type=lambda text: tuple(map(int, text.split(","))),
                        help="numbers of ranks that are planned")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--plot", help="of plans and rehearsals, a PNG")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    report = {"format": "scale 1", "cluster": options.cluster}
    for what in options.only.split(","):
        if what == "real":
            report["real"] = measure_real(options)
            print_real(report["real"])
        elif what == "planned":
            report["planned"] = measure_planned(options)
            print_planned(options, report["planned"])
        else:
            stop(f"--only: found {what}, valid is real, planned or both with "
                 "a comma")
    if options.plot:
        run_sim(options, ",".join(map(str, options.planned)), "all", "--plot",
                options.plot)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1),
                                encoding="utf-8")


if __name__ == "__main__":
    main()
