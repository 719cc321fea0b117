#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tianhe-3 prototype: what the choice of an allreduce is worth

Training AlexNet on CIFAR-10 took 141.55 min with MPI and 732.94 min with Gloo (Wei
et al., Sci. Rep. 11, 2021; from the text of table 3): 5.18 times as long. How many
nodes, and how much of it was communication, is not known, so only the order of
magnitude can be compared; what the paper's dynamic allreduce chooses by is not known
either, so the choice below is libcoll's own. Baselines are plain: a ring that is
always taken, without learning; that ring for each tensor by itself, one after the
other, as PyTorch's tutorial has it; and a ring over plain sockets (peer_ring).

Measured: the sum of a net's gradients on four hosts, namespaces of this machine, with
ports of 1 Gbit/s or in two groups with 250 Mbit/s between them. Then epochs of LeNet on
as many images as Fashion-MNIST has, and of a small AlexNet on as many as CIFAR-10: of
coll_train as it is, and with the plain ring for each layer as soon as it is there
(`--exchange layers`), so beside the backward pass, not after it; and, where PyTorch is
installed, of its DistributedDataParallel over Gloo, which computes with other kernels,
too. Of both by the steps of a few seconds, images made up. Simulated: on the
described cluster `tianhe3_ft2000plus`, whose figures are partly placeholders; a plain
ring there; and that ring over TCP, taken as 15 us and 1.1 GB/s a node, which is what
libcoll assumes of 10 Gbit/s."""
import json
import os
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from paper import (MEASURED, MIB, ROOT, SIMULATED, TEXT, Run,  # noqa: E402
                   Skip, curve, with_env)
from compare_peers import parse  # noqa: E402
import nets  # noqa: E402

ALEXNET = 60965224 * 4
TCP = "node:128 (15us 1.1GB/s)"
NODES = (4, 8, 16, 32, 64, 128)
NETWORKS = {"1 Gbit/s": ("--rate", "1Gbit"),
            "1 Gbit/s, groups at 250 Mbit/s": (
                "--rate", "1Gbit", "--groups", "2", "--trunk-rate",
                "250Mbit")}
MEASURE = [(network, net) for net in ("lenet", "resnet20", "googlenet")
           for network in NETWORKS]
PLAIN = {"COLL_ALGO": "allreduce:ring", "COLL_ADAPT": "off"}
# Images of a rank, and of an epoch.
EPOCHS = {"lenet": (64, 60000), "alexnet_cifar": (64, 50000)}
RATE = NETWORKS["1 Gbit/s"]
LEARNED = 60  # steps after which --exchange auto has chosen


def sums(run, network, net, env):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, net)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(map(str, nets.tensors(net))))
        command = [*run.ranks(4, NETWORKS[network]),
                   run.build / "coll_tensors"]
        shown = with_env(env, [*command, f"{net}.tensors", "2"])
        out = run.execute([*command, path, "2"], shown=shown, **env)
    return json.loads(out[out.index("{"):])


def sockets_ms(run, network, net):
    """Of the ring over plain sockets; peer.h says what it prints."""
    size = 4 * sum(nets.tensors(net))
    out = run.execute([*run.ranks(4, (*NETWORKS[network], "--gloo")),
                       run.build / "peer_ring", "allreduce", size, size, 2])
    of_rank_0 = out[out.index("[0] ") + 4:].partition("\n")[0]
    return parse("peer_ring", of_rank_0)[size] / 1e3


def measured(run):
    rows = []
    for network, net in run.points(MEASURE):
        try:
            ours = sums(run, network, net, {})["packed_ms"]
            plain = sums(run, network, net, PLAIN)
            sockets = sockets_ms(run, network, net)
        except Skip as why:
            run.skipped = str(why)
            return
        ring, layers = plain["packed_ms"], plain["layers_ms"]
        rows.append((MEASURED, f"4 hosts, {network}", net,
                     f"{4 * sum(nets.tensors(net)) / MIB:.1f}",
                     f"{ours:.4g}", f"{ring:.4g}", f"{layers:.4g}",
                     f"{sockets:.4g}", f"{ring / ours:.2f}",
                     f"{layers / ours:.2f}", f"{sockets / ours:.2f}",
                     f"5.18, {TEXT}"))
    run.table(("where", "net", "MiB", "chosen, packed ms", "ring, packed ms",
               "ring, by tensors ms", "sockets, packed ms", "ring / chosen",
               "by tensors / chosen", "sockets / chosen", "Gloo / MPI"), rows)


def epoch_s(run, net, *words, **env):
    """Of coll_train, by its later steps."""
    batch, count = EPOCHS[net]
    nsteps = 4 if run.smallest else 2 * LEARNED
    steps, _ = run.train(
        4, "--net", net, "--data",
        f"synthetic:{4 * batch * nsteps}x{nets.images(net)}", "--batch", batch,
        "--steps", nsteps, "--lr", 0.0001, *words, network=RATE,
        seconds=600, **env)
    return statistics.median(row["step_ms"] for row in steps[nsteps // 2:]) \
        * count / batch / 4e3


def torch_epoch_s(run, net):
    """Of DistributedDataParallel over Gloo; None without PyTorch."""
    batch, count = EPOCHS[net]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "json")
        command = [ROOT / "benchmarks" / "compare_torch.py", "--build",
                   run.build, "--nets", f"{net}:{batch}", "--lab",
                   " ".join(("--hosts 4", *RATE)), "--rounds", 1, "--seconds",
                   8]
        try:
            run.execute([*command, "--json", path], 300, shown=command)
        except Skip:
            return None
        with open(path, encoding="utf-8") as text:
            return count / json.load(text)["rows"][0]["torch"]


def epochs(run):
    if run.skipped:
        return
    rows = []
    for net in run.points(EPOCHS):
        ours = epoch_s(run, net)
        plain = epoch_s(run, net, "--exchange", "layers", **PLAIN)
        torch = None if run.smallest else torch_epoch_s(run, net)
        rows.append((MEASURED, "4 hosts, 1 Gbit/s", net,
                     f"{4 * sum(nets.tensors(net)) / MIB:.1f}",
                     EPOCHS[net][0], f"{ours:.1f}", f"{plain:.1f}",
                     f"{torch:.1f}" if torch else "-", f"{plain / ours:.2f}",
                     f"{torch / ours:.2f}" if torch else "-",
                     f"5.18, {TEXT}"))
    run.say("Seconds of an epoch:")
    run.table(("where", "net", "MiB", "images a rank", "chosen",
               "ring, by layers", "PyTorch over Gloo", "ring / chosen",
               "PyTorch / chosen", "Gloo / MPI"), rows)


def allreduce_ms(run, cluster, nodes, *more):
    row = run.sim("allreduce", "--cluster", cluster, "-n", nodes, "-b",
                  ALEXNET, *more)[0]
    return row["simulated_us"] / 1e3, row["algorithm"]


def simulated(run):
    rows, curves = [], {"chosen": [], "ring": [], "ring over TCP": []}
    for nodes in run.points(NODES):
        ours, algorithm = allreduce_ms(run, "tianhe3_ft2000plus", nodes)
        plain = ("--algo", "ring", "--order", "given")
        ring, _ = allreduce_ms(run, "tianhe3_ft2000plus", nodes, *plain)
        tcp, _ = allreduce_ms(run, TCP, nodes, *plain)
        for name, ms in zip(curves, (ours, ring, tcp)):
            curves[name].append((nodes, ms / 1e3))
        rows.append((SIMULATED, nodes, algorithm, f"{ours:.1f}",
                     f"{ring:.1f}", f"{tcp:.1f}", f"{ring / ours:.2f}",
                     f"{tcp / ours:.2f}", f"5.18, {TEXT}"))
    run.say("The exchange of AlexNet's gradients, 232.6 MiB:")
    run.table(("nodes", "chosen", "chosen ms", "ring ms", "ring, TCP ms",
               "ring / chosen", "ring, TCP / chosen", "Gloo / MPI"), rows)
    run.picture({"subtitle": "AlexNet's gradients on tianhe3_ft2000plus, "
                 "simulated", "x_label": "nodes", "y_label": "allreduce",
                 "x": "numbers", "y": "seconds",
                 "series": [curve(f"{name}, simulated", points)
                            for name, points in curves.items()]})


def main():
    run = Run(__doc__)
    measured(run)
    epochs(run)
    simulated(run)
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
