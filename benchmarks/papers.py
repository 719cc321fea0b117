#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Results of four papers, and beside them what libcoll's plans take, simulated.

    benchmarks/papers.py [--build build] > benchmarks/papers.md
    benchmarks/papers.py --only knl,swflow

Everything under "simulated" is virtual time on a described cluster: it depends
on no machine, and on the placeholders of the description. Of the papers,
"stated" is from an abstract or a published table, "recalled" from memory; what
could be checked of it agrees, but it was not looked up. Writes Markdown.
"""
import argparse
import pathlib
import sys

sys.dont_write_bytecode = True
from simulator import simulate  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
ALEXNET = 60965224 * 4   # with groups, which swCaffe trains: 232.6 MiB
RESNET50 = 25557032 * 4
VGG16 = 138357544 * 4
GAMMA_NS = 3 / 28        # a sum is three accesses at 28 GB/s, as recalled


class Simulator:
    def __init__(self, build):
        self.build = build

    def __call__(self, *args):
        """The results of one coll_sim."""
        return simulate(self.build, *args)["results"]

    def train(self, cluster, ranks, size, step_ms, *more):
        """Rows of coll_sim train; one call for all gradients."""
        return self("train", "--cluster", cluster, "-n", ranks, "--bytes",
                    size, "--bucket", size, "--step-ms", step_ms,
                    "--overlap", "off", *more)

    def allreduce_ms(self, cluster, ranks, size, *more):
        row = self("allreduce", "--cluster", cluster, "-n", ranks, "-b", size,
                   *more)[0]
        return row["simulated_us"] / 1e3, row["algorithm"]


def table(heads, rows):
    """The first column left, the others right."""
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


# --- swCaffe: 1024 nodes -----------------------------------------------------

# Net, bytes, images a node, its speed-up, whether that is stated. The time of
# one node's step follows from the images per second recalled.
SWCAFFE = (("AlexNet", ALEXNET, 64, 680, 409.50, "recalled"),
           ("AlexNet", ALEXNET, 128, 1359, 561.58, "recalled"),
           ("AlexNet", ALEXNET, 256, 2718, 715.45, "stated"),
           ("ResNet-50", RESNET50, 32, 5760, 828.32, "recalled"),
           ("ResNet-50", RESNET50, 64, 11510, 928.15, "stated"))


def fit_slowdown(exchange_ms):
    """Of swCaffe's exchange over ours, from AlexNet with 256 images."""
    net, _, batch, step_ms, speedup, _ = SWCAFFE[2]
    paper_ms = step_ms * (1024 / speedup - 1)
    return paper_ms / exchange_ms[net, batch]


def swcaffe(sim):
    print("## swCaffe: 1024 nodes of Sunway TaihuLight\n\n"
          "Speed-up over one node. swCaffe (CLUSTER 2018) states \"up to "
          "715.45x and 928.15x\"\nfor its two nets; which belongs to which, "
          "the other three rows, and the times of a\nstep on one node are "
          "recalled. Simulated: one allreduce of all gradients after each\n"
          "step, nothing overlapped, on `taihulight`. Fitted: the exchange "
          "made slower by one\nfactor, such that AlexNet with 256 images "
          "agrees; the others are then predictions.\n")
    found = {(net, batch): sim.train("taihulight", 1024, size, ms)[0]
             for net, size, batch, ms, _, _ in SWCAFFE}
    ring = {(net, batch): sim.train("taihulight", 1024, size, ms, "--algo",
                                    "ring")[0]
            for net, size, batch, ms, _, _ in SWCAFFE}
    slower = fit_slowdown({k: row["exchange_ms"] for k, row in found.items()})
    rows = []
    for net, _, batch, ms, paper, sure in SWCAFFE:
        row = found[net, batch]
        fitted = 1024 * ms / (ms + slower * row["exchange_ms"])
        rows.append((net, batch, f"{ms / 1e3:g}", f"{paper} {sure}",
                     f"{row['speedup']:.2f}", row["algorithm"],
                     f"{row['exchange_ms']:.1f}",
                     f"{ring[net, batch]['speedup']:.2f}", f"{fitted:.0f}",
                     f"{100 * (fitted / paper - 1):+.1f} %"))
    table(("net", "images a node", "step s", "swCaffe", "simulated, chosen",
           "algorithm", "exchange ms", "simulated, ring", "fitted",
           "off by"), rows)
    print(f"The factor is {slower:.1f}. If what is recalled is right, a step "
          "of swCaffe lost as many\ntimes what its links at their recalled "
          "rates and sums at 8 GB/s explain; what else\nit spent is not in "
          "this model. So the simulated column is a bound, not a "
          "forecast.\n")


# --- orders of the ranks -----------------------------------------------------

def orders(sim):
    print("## Rank orders that know the supernodes, and others\n\n"
          "Halving and doubling on `taihulight`, whose supernodes have 256 "
          "nodes. The far form\n(largest exchange at distance n/2) wants "
          "ranks dealt over the supernodes, which is\nswCaffe's renumbering; "
          "the near form wants them in blocks. Across: bytes that leave\na "
          "supernode, of all bytes. A sum takes three accesses at 28 GB/s, "
          "as recalled. All\nsimulated.\n")
    rows = []
    for name, size in (("AlexNet", ALEXNET), ("VGG-16", VGG16),
                       ("ResNet-50", RESNET50)):
        for ranks in 512, 1024, 4096:
            found = {(r["algorithm"], r["rank_order"]): r for r in sim(
                "allreduce", "--cluster", "taihulight", "-n", ranks, "-b",
                size, "--gamma", GAMMA_NS, "--algo",
                "halving_doubling,halving_doubling_near")}
            right = found["halving_doubling", "round_robin"]
            near = found["halving_doubling_near", "block"]
            wrong = found["halving_doubling", "block"]
            chosen, algorithm = sim.allreduce_ms(
                "taihulight", ranks, size, "--gamma", GAMMA_NS)
            rows.append((
                f"{name}, {size / MIB:.1f} MiB", ranks,
                *(f"{r['simulated_us'] / 1e3:.1f}"
                  for r in (wrong, right, near)), f"{chosen:.1f}", algorithm,
                f"{wrong['simulated_us'] / right['simulated_us']:.2f}",
                *(f"{100 * r['crossing']['supernode'] / r['bytes_sent']:.2f} "
                  "%" for r in (wrong, right))))
    table(("gradients", "ranks", "far, block ms", "far, dealt ms",
           "near, block ms", "chosen ms", "algorithm", "block / dealt",
           "across, block", "across, dealt"), rows)


# --- Tianhe-3 ----------------------------------------------------------------

TCP = "node:128 (15us 1.1GB/s)"


def tianhe(sim):
    print("## Tianhe-3 prototype: two back ends\n\n"
          "Training AlexNet on CIFAR-10 took 141.55 min with MPI and 732.94 "
          "min with Gloo (Wei\net al., Sci. Rep. 11, 2021, table 3): 5.18 "
          "times as long. How many nodes, and how\nmuch of it was "
          "communication, is not known, so only the order of magnitude can "
          "be\ncompared. Simulated, the exchange of AlexNet's gradients: what "
          "libcoll chooses on\n`tianhe3_ft2000plus`; a plain ring there; and "
          "that ring over TCP, taken as 15 us and\n1.1 GB/s a node (an "
          "assumption: what libcoll assumes of TCP on 10 Gbit/s).\n")
    rows = []
    for ranks in 4, 8, 16, 32, 64, 128:
        mine, algorithm = sim.allreduce_ms("tianhe3_ft2000plus", ranks,
                                           ALEXNET)
        ring, _ = sim.allreduce_ms("tianhe3_ft2000plus", ranks, ALEXNET,
                                   "--algo", "ring", "--order", "given")
        tcp, _ = sim.allreduce_ms(TCP, ranks, ALEXNET, "--algo", "ring",
                                  "--order", "given")
        rows.append((ranks, algorithm, f"{mine:.1f}", f"{ring:.1f}",
                     f"{tcp:.1f}", f"{ring / mine:.2f}", f"{tcp / mine:.2f}"))
    table(("nodes", "chosen", "chosen ms", "ring ms", "ring, TCP ms",
           "ring / chosen", "ring, TCP / chosen"), rows)


# --- Knights Landing ---------------------------------------------------------

KNL_SECONDS = (1533, 1590, 1608, 1641, 1630, 1662, 1674)


def knl(sim):
    print("## Knights Landing: GoogLeNet on up to 64 nodes\n\n"
          "You, Buluc and Demmel (SC17) state a weak scaling efficiency of "
          "91.5 % on \"4253\" cores\n(4352 are 64 nodes of 68). The other "
          "points, from seconds for 300 iterations, are\nrecalled. Simulated: "
          "elastic averaging at every step on `knl_cori`, nothing "
          "overlapped,\na step of 5.11 s (1533 / 300).\n")
    found = sim.train("knl_cori", "1..64", 6998552 * 4, 5110, "--strategy",
                      "decentralized-easgd")
    table(("nodes", "cores", "recalled", "simulated", "exchange ms"),
          [(row["nranks"], 68 * row["nranks"],
            f"{100 * KNL_SECONDS[0] / KNL_SECONDS[i]:.1f} %",
            f"{100 * row['efficiency']:.2f} %", f"{row['exchange_ms']:.2f}")
           for i, row in enumerate(found)])
    print("The links explain next to nothing of what the paper lost.\n")


# --- swFLOW ------------------------------------------------------------------

def swflow(sim):
    print("## swFLOW: elastic averaging at every tau-th step\n\n"
          "Li et al. (Information Sciences 570, 2021) state 81.01 % parallel "
          "efficiency on 512\nprocesses with tau = 8. Net and times of a step "
          "are not known. If all of the loss\nwas an exchange that nothing "
          "hid, it took 1.875 times as long as a step; simulated\nis such a "
          "step with AlexNet's weights on `taihulight`, so that the row of "
          "8 agrees by\ndesign and the others follow from the model.\n")
    ranks, (exchange, algorithm) = 512, sim.allreduce_ms("taihulight", 512,
                                                         ALEXNET)
    both = [sim("train", "--cluster", "taihulight", "-n", ranks, "--bytes",
                ALEXNET, "--step-ms", exchange / 1.875, "--strategy",
                "decentralized-easgd", "--tau", "1..16", "--overlap", overlap)
            for overlap in ("off", "on")]
    table(("tau", "stated", "simulated", "the same, overlapped"),
          [(off["tau"], "81.01 %" if off["tau"] == 8 else "",
            f"{100 * off['efficiency']:.1f} %",
            f"{100 * on['efficiency']:.1f} %") for off, on in zip(*both)])
    print(f"The exchange is simulated as {exchange:.1f} ms ({algorithm}).\n")


HEAD = """\
# Four papers' results, and libcoll's plans simulated

Written by `benchmarks/papers.py > benchmarks/papers.md`. What is called simulated
is virtual time on described clusters (`topo/clusters`), whose figures are partly
placeholders; it is no measurement, neither of libcoll nor of those machines. What
the papers state is marked so; what is marked recalled was not looked up, and is
here for comparison only, not as a fact about the paper. Times of a step are given,
not simulated. A sum takes 0.125 ns a byte where nothing else is said.
"""
TABLES = {"swcaffe": swcaffe, "orders": orders, "tianhe": tianhe, "knl": knl,
          "swflow": swflow}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", default=",".join(TABLES),
                        help="default: %(default)s")
    options = parser.parse_args()
    names = options.only.split(",")
    for name in names:
        if name not in TABLES:
            sys.exit(f"papers.py: no table {name}; there are "
                     + ", ".join(TABLES))
    print(HEAD)
    for name in names:
        TABLES[name](Simulator(options.build))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
