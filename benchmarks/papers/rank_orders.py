#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rank orders that know the supernodes, and others

swCaffe (Fang et al., CLUSTER 2018) renumbers ranks so that recursive halving and
doubling crosses supernodes with the least bytes (the abstract says that there is a
topology-aware allreduce; how it works is from memory). Simulated on the described
cluster `taihulight`, whose supernodes have 256 nodes: the far form (largest exchange
at distance n/2) wants ranks dealt over the supernodes, which is swCaffe's
renumbering; the near form wants them in blocks. Across: bytes that leave a
supernode, of all bytes. A sum is taken to be three accesses at 28 GB/s.

Last, what libcoll would choose on all 40,960 nodes, of which 160 supernodes are no
power of two; the abstract has no figure to compare it with."""
import sys

sys.dont_write_bytecode = True
from paper import MIB, SIMULATED, Run, curve  # noqa: E402

GAMMA_NS = 3 / 28
NETS = {"ResNet-50": 25557032 * 4, "AlexNet": 60965224 * 4,
        "VGG-16": 138357544 * 4}
RANKS = (512, 1024, 4096)
ALL, WHOLE = 40960, (10, 13, 16, 19, 22, 25, 29)  # 1 KiB to 512 MiB


def simulate(run, size, ranks, *more):
    return run.sim("allreduce", "--cluster", "taihulight", "-n", ranks, "-b",
                   size, "--gamma", GAMMA_NS, *more)


def all_nodes(run):
    rows = []
    for shift in run.points(WHOLE, 0):  # each is a minute
        chosen = simulate(run, 1 << shift, ALL)[0]
        rows.append((SIMULATED, ALL, size_name(1 << shift),
                     chosen["algorithm"], chosen["rank_order"],
                     f"{chosen['simulated_us'] / 1e3:.4g}"))
    if rows:
        run.say("All of the machine:")
        run.table(("ranks", "vector", "chosen", "rank order", "ms"), rows)


def size_name(size):
    return f"{size >> 20} MiB" if size >= MIB else f"{size >> 10} KiB"


def crossing(row):
    return (f"{100 * row['crossing']['supernode'] / row['bytes_sent']:.2f} %")


def main():
    run = Run(__doc__)
    rows, far_block, far_dealt = [], {}, {}
    for net, ranks in run.points([(net, ranks) for ranks in RANKS
                                  for net in NETS]):
        found = {(r["algorithm"], r["rank_order"]): r for r in simulate(
            run, NETS[net], ranks, "--algo",
            "halving_doubling,halving_doubling_near")}
        right = found["halving_doubling", "round_robin"]
        near = found["halving_doubling_near", "block"]
        wrong = found["halving_doubling", "block"]
        chosen = simulate(run, NETS[net], ranks)[0]
        far_block.setdefault(net, []).append(
            (ranks, wrong["simulated_us"] / 1e6))
        far_dealt.setdefault(net, []).append(
            (ranks, right["simulated_us"] / 1e6))
        rows.append((
            SIMULATED, f"{net}, {NETS[net] / MIB:.1f} MiB", ranks,
            *(f"{r['simulated_us'] / 1e3:.1f}"
              for r in (wrong, right, near, chosen)), chosen["algorithm"],
            f"{wrong['simulated_us'] / right['simulated_us']:.2f}",
            crossing(wrong), crossing(right)))
    run.table(("gradients", "ranks", "far, block ms", "far, dealt ms",
               "near, block ms", "chosen ms", "algorithm", "block / dealt",
               "across, block", "across, dealt"), rows)
    all_nodes(run)
    run.picture({"subtitle": "Halving and doubling on taihulight, simulated",
                 "x_label": "nodes", "y_label": "allreduce", "x": "numbers",
                 "y": "seconds", "series": [
                     series for net in far_block for series in (
                         curve(f"{net}: in blocks", far_block[net]),
                         curve(f"{net}: dealt", far_dealt[net]))]})
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
