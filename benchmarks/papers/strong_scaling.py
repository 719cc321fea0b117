#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""swCaffe on 1024 nodes of Sunway TaihuLight

Speed-up over one node. swCaffe (Fang et al., CLUSTER 2018) states "up to 715.45x
and 928.15x" for its two nets in the abstract; which belongs to which, the other
three rows, and the times of a step on one node are from memory. Simulated: one
allreduce of all gradients after each step, nothing overlapped, on the described
cluster `taihulight`, whose figures are partly placeholders; a sum takes 0.125 ns a
byte. It is no measurement, neither of libcoll nor of that machine. Fitted: the
exchange made slower by one factor, such that AlexNet with 256 images agrees; the
others are then predictions."""
import sys

sys.dont_write_bytecode = True
from paper import ABSTRACT, MEMORY, SIMULATED, Run, curve  # noqa: E402

CLUSTER, NODES = "taihulight", 1024
# AlexNet with groups, which swCaffe trains.
BYTES = {"AlexNet": 60965224 * 4, "ResNet-50": 25557032 * 4}
PAIR = f"{ABSTRACT}; that it is this net's: {MEMORY}"
# Net, images a node, ms of one node's step, its speed-up, how sure.
ROWS = (("AlexNet", 256, 2718, 715.45, PAIR),
        ("AlexNet", 64, 680, 409.50, MEMORY),
        ("AlexNet", 128, 1359, 561.58, MEMORY),
        ("ResNet-50", 32, 5760, 828.32, MEMORY),
        ("ResNet-50", 64, 11510, 928.15, PAIR))


def exchanges(run, net, nodes, *more):
    """coll_sim's rows by number of nodes; only their exchange_ms counts."""
    rows = run.sim("train", "--cluster", CLUSTER, "-n", nodes, "--bytes",
                   BYTES[net], "--bucket", BYTES[net], "--step-ms", 1,
                   "--overlap", "off", *more)
    return {row["nranks"]: row for row in rows}


def speedup(nodes, step_ms, exchange_ms):
    return nodes * step_ms / (step_ms + exchange_ms)


def main():
    run = Run(__doc__)
    chosen, ring = {}, {}
    for what in run.points(("AlexNet", "ResNet-50", "AlexNet ring",
                            "ResNet-50 ring")):
        net, _, forced = what.partition(" ")
        if forced:
            ring[net] = exchanges(run, net, NODES, "--algo", "ring")
        else:
            chosen[net] = exchanges(run, net, NODES if run.smallest
                                    else f"1..{NODES}")
    _, _, step_ms, paper, _ = ROWS[0]
    slower = (step_ms * (NODES / paper - 1)
              / chosen["AlexNet"][NODES]["exchange_ms"])
    rows, papers, series = [], [], []
    for net, images, step_ms, paper, sure in ROWS:
        if net not in chosen:
            continue
        row = chosen[net][NODES]
        fitted = speedup(NODES, step_ms, slower * row["exchange_ms"])
        plain = (f"{speedup(NODES, step_ms, ring[net][NODES]['exchange_ms']):.2f}"
                 if net in ring else "-")
        rows.append((SIMULATED, net, images, f"{step_ms / 1e3:g}",
                     f"{paper}, {sure}",
                     f"{speedup(NODES, step_ms, row['exchange_ms']):.2f}",
                     row["algorithm"], f"{row['exchange_ms']:.1f}", plain,
                     f"{fitted:.0f}", f"{100 * (fitted / paper - 1):+.1f} %"))
        papers.append((NODES, 100 * paper / NODES))
        series += [
            curve(f"{net}, {images} images", [
                (n, 100 / n * speedup(n, step_ms, r["exchange_ms"]))
                for n, r in chosen[net].items()]),
            curve(f"{net}, {images}, fitted", [
                (n, 100 / n * speedup(n, step_ms, slower * r["exchange_ms"]))
                for n, r in chosen[net].items()], reference=True,
                of=len(series) + 1)]
    run.table(("net", "images a node", "step s", "swCaffe", "chosen",
               "algorithm", "exchange ms", "ring", "fitted", "off by"), rows)
    run.say(f"""
The factor is {slower:.1f}. If what is remembered is right, a step of swCaffe lost
as many times what its links at their remembered rates and sums at 8 GB/s explain;
what else it spent is not in this model. So the simulated columns are bounds, not
forecasts.""")
    run.picture({"subtitle": f"{CLUSTER}, simulated, and swCaffe's five on "
                 "1024 nodes", "x_label": "nodes", "y_label": "efficiency",
                 "x": "numbers", "y": "percent",
                 "series": [*series, curve(
                     "swCaffe, see the table", papers)]})
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
