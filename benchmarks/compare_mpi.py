#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares coll_bench allreduce with the MPI of this machine, f32 sum.

    benchmarks/compare_mpi.py [--build build] [-n 2] [--rounds 5]

Sizes are measured in groups. In each round the two programs run one right
after the other on the same group, and change places from round to round, so
that what else the machine does meets both alike. Printed is a table for
README.md: for each size the median over the rounds of both p50, and the median
of the rounds' ratios with the smallest and the largest. Both programs follow
the timing rule of README.md. Status: 0 compared, 77 no MPI, 1 something failed.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GROUPS = [(8, 2048), (8192, 524288), (2097152, 33554432),
          (67108864, 67108864)]
FACTOR = 4


def arguments():
    parser = argparse.ArgumentParser(
        description="Compares coll_bench allreduce with MPI in interleaved "
        "pairs of runs, and prints a table in Markdown.")
    parser.add_argument("--build", default="build",
                        help="Meson build folder with collrun and coll_bench")
    parser.add_argument("-n", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--rounds", type=int, default=5,
                        help="pairs of runs for each group of sizes")
    parser.add_argument("--max-bytes", type=int, default=GROUPS[-1][1],
                        help="longest vector (default 67108864)")
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--mpirun", default="mpirun")
    options = parser.parse_args()
    if options.n < 1 or options.rounds < 1:
        parser.error("-n and --rounds: valid is a whole number of at least 1")
    return options


def run(command):
    """Standard output, or an exit with what the command said."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=env, text=True, capture_output=True,
                          timeout=600)
    if done.returncode != 0:
        sys.exit(f"compare_mpi.py: {' '.join(command)}: status "
                 f"{done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def mpi_command(options):
    """mpirun bound to cores like collrun, where there is one for each rank."""
    command = [options.mpirun, "-n", str(options.n)]
    if "Open MPI" in run([options.mpirun, "--version"]):
        enough = len(os.sched_getaffinity(0)) >= options.n
        command += ["--bind-to", "core"] if enough else ["--oversubscribe"]
    else:
        command += ["-bind-to", "core"]
    return command


def measure_coll(options, low, high, folder):
    path = os.path.join(folder, "coll.json")
    run([os.path.join(options.build, "collrun"), "-n", str(options.n),
         os.path.join(options.build, "coll_bench"), "allreduce", "-b",
         str(low), "-e", str(high), "-f", str(FACTOR), "--json", path])
    with open(path, encoding="utf-8") as file:
        return {row["bytes"]: row["time_us"]["p50"]
                for row in json.load(file)["results"]}


def measure_mpi(launcher, program, low, high):
    found = {}
    for line in run(launcher + [program, str(low), str(high),
                                str(FACTOR)]).splitlines():
        words = line.split()
        if words[-1] != "0":
            sys.exit(f"compare_mpi.py: MPI: {words[-1]} wrong elements at "
                     f"{words[0]} bytes")
        found[int(words[0])] = float(words[2])
    return found


def compare(options, launcher, program, folder):
    """bytes -> list of (coll, mpi) in microseconds, one pair a round."""
    pairs = {}
    for low, high in GROUPS:
        high = min(high, options.max_bytes)
        if low > high:
            continue
        for number in range(options.rounds):
            if number % 2 == 0:
                coll = measure_coll(options, low, high, folder)
                mpi = measure_mpi(launcher, program, low, high)
            else:
                mpi = measure_mpi(launcher, program, low, high)
                coll = measure_coll(options, low, high, folder)
            for size in sorted(coll.keys() & mpi.keys()):
                pairs.setdefault(size, []).append((coll[size], mpi[size]))
            print(f"# {low}..{high} bytes: round {number + 1} of "
                  f"{options.rounds}", file=sys.stderr)
    return pairs


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def print_table(options, launcher, pairs):
    version = run([options.mpirun, "--version"]).splitlines()[0]
    print(f"allreduce f32 sum, {options.n} ranks, {cpu_name()}, "
          f"{os.cpu_count()} CPUs; {options.rounds} interleaved pairs; "
          f"`{' '.join(launcher)}`, {version}\n")
    print("| bytes | libcoll p50 (us) | MPI p50 (us) | libcoll / MPI | "
          "spread |")
    print("|---:|---:|---:|---:|---:|")
    for size, rounds in sorted(pairs.items()):
        ratios = [coll / mpi for coll, mpi in rounds]
        print(f"| {size} | {statistics.median(c for c, _ in rounds):.2f} "
              f"| {statistics.median(m for _, m in rounds):.2f} "
              f"| {statistics.median(ratios):.2f} "
              f"| {min(ratios):.2f} .. {max(ratios):.2f} |")


def main():
    options = arguments()
    for tool in (options.mpicc, options.mpirun):
        if not shutil.which(tool):
            print(f"compare_mpi.py: skipped: {tool} is not installed "
                  "(Debian: openmpi-bin libopenmpi-dev)")
            return 77
    for name in ("collrun", "coll_bench"):
        if not os.access(os.path.join(options.build, name), os.X_OK):
            sys.exit(f"compare_mpi.py: --build {options.build}: found no "
                     f"{name} there; valid is a folder that Meson built")
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "mpi_allreduce")
        run([options.mpicc, "-std=c17", "-D_GNU_SOURCE", "-O3", "-o", program,
             os.path.join(HERE, "mpi_allreduce.c"), "-lm"])
        launcher = mpi_command(options)
        print_table(options, launcher,
                    compare(options, launcher, program, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
