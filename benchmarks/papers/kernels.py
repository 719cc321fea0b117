#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Convolutions beside scalar code, the core's peak, and a column matrix

swFLOW's convolution is 10.42 times as fast as the original, which ran on one
management core (Li et al., 2021; stated in the abstract); which layers that were is
not known. Here one core runs both: the direct kernels with its widest instructions,
and the same source as plain C. The compiler makes that 4 floats side by side (SSE2),
so beside code that takes one number at a time the ratio would be larger. auto is what
the trainer would take, Winograd's for most windows of 3x3.

swDNN, on which swCaffe is built, has 54 % of the processor's peak, in double (Fang et
al., IPDPS 2017; stated in the abstract). Here the peak is what fused multiply-adds
in registers reach on one core, and only the direct kernels are held against it: they do
all multiply-adds that count.

swCaffe trains 3.04 to 7.84 times as fast on the SW26010 as Caffe on a CPU (Fang et
al., CLUSTER 2018; stated in the abstract); which net has the most and the least is
from memory.
What Caffe does is a column matrix and a BLAS, and so does `coll_train --kernel gemm`,
with OpenBLAS. Both run on one core here, and all but the convolutions is the same
in both, so this is what the kernels bring, and not one processor beside another."""
import json
import os
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
from paper import ABSTRACT, MEASURED, MEMORY, Run, curve  # noqa: E402
import nets  # noqa: E402

SWFLOW, SWDNN = 10.42, 54
SECONDS = 0.1  # of each layer and pass, but 3 runs at least
# Images at a time: of conv_bench, and of a step.
BENCH = {"alexnet": 16, "resnet50": 4, "googlenet": 4, "vgg16": 2}
TRAIN = {"alexnet": 16, "googlenet": 8, "resnet50": 8, "vgg16": 4, "vgg19": 4}
# Images a second of SW26010 over those of a CPU.
SWCAFFE = {"alexnet": f"7.84, {MEMORY}", "googlenet": f"3.04, {MEMORY}"}
STEPS = 5
PASSES = ("fwd", "bwd_data", "bwd_weights")


def bench(run, net, kernel, isa):
    """What conv_bench says."""
    images = 1 if run.smallest else BENCH[net]
    effort = (("--iterations", 1) if run.smallest else
              ("--seconds", SECONDS))
    command = [run.build / "conv_bench", "--net", net, "--batch", images,
               "--kernel", kernel, "--isa", isa, *effort]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "json")
        run.execute([*command, "--json", path], 600,
                    shown=[str(word) for word in command])
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def sums(report):
    """Milliseconds of each pass over the net, and of all."""
    found = {row["pass"]: row["time_ms"] for row in report["sums"]}
    return {**found, "all": sum(found.values())}


def rates(report):
    """GFLOP/s of each layer and pass."""
    return {(row["layer"], row["pass"]): row for row in report["results"]}


def best_first(name, values):
    return curve(name, enumerate(sorted(values, reverse=True), 1))


def kernels(run):
    """Both tables of conv_bench, and a panel of each."""
    faster, of_peak, ratios, percents = [], [], [], []
    for net in run.points(tuple(BENCH)):
        scalar, direct, auto = (
            bench(run, net, *how) for how in
            (("direct", "scalar"), ("direct", "auto"), ("auto", "auto")))
        isa, images = direct["isa"], direct["batch"]
        times = [sums(report) for report in (scalar, direct, auto)]
        for which in (*PASSES, "all"):
            a, b, c = (time[which] for time in times)
            faster.append((
                MEASURED, net, images, isa, which, f"{a:.4g}", f"{b:.4g}",
                f"{c:.4g}", f"{a / b:.2f}", f"{a / c:.2f}",
                f"{SWFLOW}, {ABSTRACT}" if which == "all" else ""))
        plain, wide = rates(scalar), rates(direct)
        best = max(wide.values(), key=lambda row: row["percent_of_peak"])
        whole = sum(row["gflop"] for row in direct["sums"]) / (
            times[1]["all"] * 1e-3)
        of_peak.append((
            MEASURED, net, images, isa, f"{direct['peak_gflops']:.1f}",
            f"{best['layer']} {best['pass']}", f"{best['gflops']:.1f}",
            f"{best['percent_of_peak']:.1f} %",
            f"{100 * whole / direct['peak_gflops']:.1f} %",
            f"{SWDNN} %, {ABSTRACT}"))
        ratios.append(best_first(net, (
            wide[key]["gflops"] / row["gflops"]
            for key, row in plain.items())))
        percents.append(best_first(net, (
            row["percent_of_peak"] for row in wide.values())))
    run.table(("net", "images", "instructions", "pass", "scalar ms",
               "direct ms", "auto ms", "scalar / direct", "scalar / auto",
               "swFLOW"), faster)
    run.say("Of the peak, GFLOP/s: the layer and pass with most of it, and "
            "all layers and passes of the net")
    run.table(("net", "images", "instructions", "peak", "layer", "it has",
               "of the peak", "the net", "swDNN"), of_peak)
    most = max(len(one["points"]) for one in ratios)
    return [{"subtitle": "Layers and passes, best first, measured; left: "
             "direct over scalar, right: direct, percent of the peak",
             "x_label": "layers and passes", "y_label": label,
             "x": "numbers", "y": unit, "series": [
                 *series, curve(f"the paper, {ABSTRACT}",
                                [(1, value), (most, value)], reference=True)]}
            for label, unit, series, value in (
                (f"times as fast (swFLOW: {SWFLOW})", "numbers", ratios,
                 SWFLOW),
                (f"of the peak (swDNN: {SWDNN} %)", "percent", percents,
                 SWDNN))]


def speed(run, net, kernel):
    """Images a second; the first step warms up."""
    images, steps = (1, 2) if run.smallest else (TRAIN[net], STEPS)
    rows, _ = run.train(
        1, "--net", net, "--data",
        f"synthetic:{images * steps}x{nets.images(net)}", "--batch", images,
        "--steps", steps, "--lr", 0.0001, "--kernel", kernel, seconds=600)
    return images, statistics.median(row["images_per_s"] for row in rows[1:])


def training(run):
    rows = []
    for net in run.points(tuple(TRAIN)):
        images, gemm = speed(run, net, "gemm")
        _, auto = speed(run, net, "auto")
        rows.append((MEASURED, net, images, f"{gemm:.4g}", f"{auto:.4g}",
                     f"{auto / gemm:.2f}", SWCAFFE.get(net, "-")))
    run.say("Steps of training on one core, images a second; the paper's "
            f"range is 3.04 to\n7.84, {ABSTRACT}:")
    run.table(("net", "images", "gemm", "auto", "auto / gemm", "swCaffe / "
               "Caffe"), rows)


def main():
    run = Run(__doc__)
    panels = kernels(run)
    training(run)
    run.picture(*panels)
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
