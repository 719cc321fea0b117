#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rings by levels beside one flat ring

The system of swFLOW had a hierarchical ring allreduce for Sunway's interconnect of
several levels (Lv et al., CCF Transactions on High Performance Computing 2, 2020; its
abstract states an average parallel efficiency of "over 80 %" on up to 1024
processors). Rings of all nodes take 2 (n - 1) steps; rings inside groups of g, then
between the groups, then inside again, take 2 (g - 1) + 2 (n/g - 1).

Simulated, with links as `taihulight` has them, which are partly placeholders: a
reduce_scatter, an allreduce of each node's part and an allgather, all by libcoll's
rings and one after another; the flat ring, in the order of the nodes; libcoll's
`hierarchical`, which goes by the same levels but halves and doubles inside those of
more than 8; and what libcoll would choose."""
import sys

sys.dont_write_bytecode = True
from paper import MIB, SIMULATED, Run, curve  # noqa: E402

NODES, GROUPS = 256, (2, 4)  # in a supernode, and of these
INSIDE, ACROSS = "1us 12GB/s", "3us 3GB/s"
SIZES = (64 << 10, MIB, 16 * MIB, 60965224 * 4)  # the last: AlexNet
PLAIN = ("--algo", "ring", "--order", "given", "--segments", 1)


def milliseconds(row):
    return row["simulated_us"] / 1e3


def ring_ms(run, collective, nodes, link, size):
    """Of one ring of nodes that are all alike."""
    return milliseconds(run.sim(collective, "--cluster", f"node:{nodes} ({link})",
                                "-n", nodes, "-b", size, *PLAIN)[0])


def by_levels_ms(run, groups, inside, size):
    return (ring_ms(run, "reduce_scatter", inside, INSIDE, size)
            + ring_ms(run, "allreduce", groups, ACROSS, size // inside)
            + ring_ms(run, "allgather", inside, INSIDE, size))


def name_of(size):
    return f"{size / MIB:.1f} MiB" if size >= MIB else f"{size >> 10} KiB"


def main():
    run = Run(__doc__)
    rows, curves, inside = [], {}, 16 if run.smallest else NODES
    for groups, size in run.points([(groups, size) for groups in GROUPS
                                    for size in SIZES]):
        nodes = groups * inside
        cluster = ("--cluster", f"supernode:{groups} ({ACROSS}) "
                   f"node:{inside} ({INSIDE})", "-n", nodes, "-b", size)
        chosen, = run.sim("allreduce", *cluster)
        forced = {row["algorithm"]: milliseconds(row) for row in run.sim(
            "allreduce", *cluster, "--algo",
            "ring@given,hierarchical@block")}
        found = {"flat ring": forced["ring"],
                 "rings by levels": by_levels_ms(run, groups, inside, size),
                 "hierarchical": forced["hierarchical"],
                 "chosen": milliseconds(chosen)}
        for name, ms in found.items():
            if groups == GROUPS[-1] or run.smallest:
                curves.setdefault(name, []).append((size, ms / 1e3))
        rows.append((
            SIMULATED, nodes, name_of(size), 2 * (nodes - 1),
            2 * (inside - 1) + 2 * (groups - 1),
            *(f"{ms:.4g}" for ms in found.values()), chosen["algorithm"],
            f"{found['flat ring'] / found['rings by levels']:.2f}"))
    run.table(("nodes", "vector", "steps, flat", "steps, by levels",
               "flat ring ms", "rings by levels ms", "hierarchical ms",
               "chosen ms", "algorithm", "flat / by levels"), rows)
    run.picture({"subtitle": f"{rows[-1][1]} nodes in supernodes of {inside}, "
                 "simulated", "x_label": "bytes", "y_label": "allreduce",
                 "x": "bytes", "y": "seconds",
                 "series": [curve(name, points)
                            for name, points in curves.items()]})
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
