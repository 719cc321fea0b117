#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the batch size changes

You, Buluc and Demmel (SC17) study the influence of the batch size; their figures are
not known. A larger batch computes faster and exchanges less often, but an epoch has
fewer steps, so that beyond some size it takes more epochs, or cannot reach the same
accuracy.

Measured: LeNet on Fashion-MNIST, two ranks with half of the batch each, SGD with
momentum 0.9, until a test at the end of an epoch says 88 %. The learning rate grows
with the batch, 0.01 for each 64 images, but not beyond 0.03, above which it
diverges. 4096, the largest batch that swFLOW states (Li et al., Information Sciences
570, 2021; in its abstract), comes of two passes through the net for each step
(--accumulate 2)."""
import sys

sys.dont_write_bytecode = True
from paper import MEASURED, Run, curve  # noqa: E402

RANKS, BATCHES = 2, (512, 64, 16, 32, 128, 256, 1024, 2048, 4096)
MOST_AT_ONCE = 2048
TARGET, EPOCHS = 0.88, 12
RATE, OF, MOST_RATE = 0.01, 64, 0.03


def rate(batch):
    return min(RATE * batch / OF, MOST_RATE)


def passes(batch):
    return (("--accumulate", batch // MOST_AT_ONCE) if batch > MOST_AT_ONCE
            else ())


def one(run, batch):
    """Epochs and seconds to the target or None twice, the accuracy reached,
    steps of an epoch, images a second."""
    seen = {}

    def train(*words, **more):
        steps, final = run.train(
            RANKS, "--net", "lenet", "--data", "fashion-mnist",
            "--global-batch", batch, "--lr", rate(batch), "--momentum", 0.9,
            "--seed", 1, *passes(batch), *words, **more)
        seen.setdefault("steps", len(steps))
        seen.setdefault("images_per_s", final["images_per_s"])
        return steps, final
    return (*run.converge(TARGET, EPOCHS, train), seen["steps"],
            seen["images_per_s"])


def main():
    run, found = Run(__doc__), {}
    for batch in run.points(BATCHES):
        found[batch] = one(run, batch)
    rows = [(MEASURED, batch, f"{rate(batch):g}", steps, f"{speed:.0f}",
             epochs or f"not in {1 if run.smallest else EPOCHS}",
             f"{seconds:.1f}" if seconds else "-", f"{100 * accuracy:.2f} %")
            for batch, (epochs, seconds, accuracy, steps, speed)
            in sorted(found.items())]
    run.table(("batch", "learning rate", "steps of an epoch", "images/s",
               f"epochs to {TARGET:.0%}", "s", "accuracy there"), rows)
    run.picture({
        "subtitle": f"Seconds of training to {TARGET:.0%}, two ranks",
        "x_label": "batch", "y_label": "seconds", "x": "numbers",
        "y": "numbers", "series": [curve(
            "LeNet, measured", [(b, row[1]) for b, row in found.items()])]})
    return run.end()


if __name__ == "__main__":
    sys.exit(main())
