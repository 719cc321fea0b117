#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gradients packed as one vector, or layer by layer

You, Buluc and Demmel (SC17) pack all layers into one message: one latency instead
of one for each layer, and contiguous memory (from the text; the times of their
figure are not known). First the sums alone, over the tensors that the nets really
have: as one vector; tensor by tensor, each when the last one is there, which is
what PyTorch's tutorial does after the backward pass; and all tensors in a group.
Then whole steps of training, where layers may travel while the ones before them
still work: packed, by layers, and what coll_train chooses.

Above these, computed as the paper counts: a message takes alpha, and beta for each
byte, with those of three networks as `topo/clusters` has them, which are placeholders.

Two ranks share memory on this machine; between hosts there are four, namespaces
with ports of 1 Gbit/s each, which share its processors."""
import json
import os
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from paper import (COMPUTED, MEASURED, MIB, Run, Skip, curve)  # noqa: E402
import nets  # noqa: E402

# Images of a rank in a step of training.
NETS = {"lenet": 64, "resnet20": 32, "googlenet": 4, "resnet50": 4,
        "alexnet": 8, "vgg16": 1}
PLACES = (("one host, 2 ranks", 2, None),
          ("4 hosts, 1 Gbit/s", 4, ("--rate", "1Gbit")))
# Seconds, and for each byte: the links of topo/clusters.
NETWORKS = {"infiniband_fdr": (0.7e-6, 0.2e-9),
            "infiniband_qdr": (1.2e-6, 0.3e-9),
            "ethernet_10g_ne020": (7.2e-6, 0.9e-9)}
EXCHANGES = ("packed", "layers", "auto")
STEPS = 7


def computed(run):
    """Of one transfer, by the paper's formula."""
    rows = []
    for net in NETS:
        counts = nets.tensors(net)
        size = 4 * sum(counts)
        for network, (alpha, beta) in NETWORKS.items():
            packed = alpha + size * beta
            layers = len(counts) * alpha + size * beta
            rows.append((COMPUTED, net, f"{size / MIB:.1f}", len(counts),
                         network, f"{alpha * 1e6:g} us, {beta * 1e9:g} ns a "
                         "byte", f"{packed * 1e3:.4g}",
                         f"{layers * 1e3:.4g}", f"{layers / packed:.3f}"))
    run.table(("net", "MiB", "tensors", "network", "alpha and beta",
               "packed ms", "by layers ms", "layers / packed"), rows)


def sums(run, net, nranks, network):
    """What coll_tensors says."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, net)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(map(str, nets.tensors(net))))
        command = [*run.ranks(nranks, network), run.build / "coll_tensors"]
        out = run.execute([*command, path, "1"], 300, shown=[
            *command, f"{net}.tensors", "1"])  # VGG-16 takes two minutes
    return json.loads(out[out.index("{"):])


def step(run, net, nranks, network, exchange):
    """Median milliseconds of a step, and of that what it waits for others."""
    count = NETS[net] * nranks * STEPS
    steps, _ = run.train(
        nranks, "--net", net, "--data", f"synthetic:{count}x"
        + nets.images(net), "--batch", NETS[net], "--steps", STEPS,
        "--exchange", exchange, network=network)
    rows = steps[1:]  # the first one warms up
    return (statistics.median(row["step_ms"] for row in rows),
            statistics.median(row["step_ms"] * row["comm_share"]
                              for row in rows))


def main():
    run = Run(__doc__)
    computed(run)
    sum_rows, step_rows, packed, layered = [], [], {}, {}
    work = [(kind, place, net) for kind in ("sum", "step")
            for place in PLACES for net in NETS]
    for kind, (place, nranks, network), net in run.points(work):
        count, size = len(nets.tensors(net)), sum(nets.tensors(net)) * 4
        head = (MEASURED, net, f"{size / MIB:.1f}", count, place)
        try:
            if kind == "sum":
                row = sums(run, net, nranks, network)
                packed.setdefault(place, []).append(
                    (size, row["packed_ms"] / 1e3))
                layered.setdefault(place, []).append(
                    (size, row["layers_ms"] / 1e3))
                sum_rows.append((
                    *head, *(f"{row[way + '_ms']:.4g}"
                             for way in ("packed", "layers", "group")),
                    f"{row['layers_ms'] / row['packed_ms']:.2f}",
                    row['packed_messages'], row['layers_messages']))
            else:
                found = [step(run, net, nranks, network, how)
                         for how in EXCHANGES]
                step_rows.append((
                    *head, NETS[net],
                    *(f"{whole:.4g} ({waits:.3g})" for whole, waits in found),
                    f"{found[1][0] / found[0][0]:.2f}"))
        except Skip as why:
            run.skipped = str(why)
    run.say("Measured:")
    heads = ("net", "MiB", "tensors", "where")
    run.table((*heads, "packed ms", "by layers ms", "group ms",
               "layers / packed", "messages packed", "by layers"), sum_rows)
    if step_rows:
        run.say("A step of training, and in brackets what of it a rank waits "
                "for the others, ms:")
        run.table((*heads, "images", *EXCHANGES, "layers / packed"),
                  step_rows)
    run.picture(*({
        "subtitle": "The sum of all gradients of a net, measured; left: one "
        "host, right: 4 hosts with 1 Gbit/s",
        "x_label": "bytes of all gradients", "y_label": place,
        "x": "bytes", "y": "seconds",
        "series": [curve("packed", packed[place]),
                   curve("layer by layer", layered[place])]}
        for place in packed))
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
