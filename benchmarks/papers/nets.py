# SPDX-License-Identifier: MIT
"""The tensors that a net learns, from the lines of its text: trainer/README.md
has the notation."""
import math
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from net_text import layers_of, options_of, sides_of  # noqa: E402

NETS = pathlib.Path(__file__).resolve().parents[2] / "trainer" / "nets"


def positions(size, window, options, stride):
    """Of a window along a side."""
    gap = int(options.get("dilation", 1))
    span = (size + 2 * int(options.get("pad", 0)) - (window - 1) * gap - 1)
    steps = span / int(options.get("stride", stride))
    return (math.ceil(steps) if "ceil" in options else math.floor(steps)) + 1


def windowed(shape, channels, words, stride_is_window):
    """The shape behind a convolution or pool; words: window and options."""
    rows, columns = sides_of(words[0])
    options = options_of(words[1:])
    return (channels,
            positions(shape[1], rows, options, rows if stride_is_window else 1),
            positions(shape[2], columns, options,
                      columns if stride_is_window else 1))


def layer(words, shapes):
    """A line's shape and its tensors' elements, from its inputs' shapes."""
    kind, shape = words[0], shapes[0]
    if kind == "conv":
        channels, options = int(words[1]), options_of(words[3:])
        rows, columns = sides_of(words[2])
        weights = (channels * shape[0] // int(options.get("groups", 1))
                   * rows * columns)
        bias = [] if "nobias" in options else [channels]
        return (windowed(shape, channels, words[2:], False),
                [weights, *bias])
    if kind in ("maxpool", "avgpool"):
        if words[1] == "global":
            return (shape[0], 1, 1), []
        return windowed(shape, shape[0], words[1:], True), []
    if kind == "dense":
        outputs = int(words[1])
        return (outputs, 1, 1), [math.prod(shape) * outputs, outputs]
    if kind == "concat":
        return (sum(s[0] for s in shapes), *shape[1:]), []
    if kind == "batchnorm":
        return shape, [shape[0], shape[0]]
    if kind in ("scale", "bias", "prelu"):
        return shape, [shape[0]]
    return shape, []


def text_of(name):
    """name: of a built-in net, or of a file."""
    path = pathlib.Path(name)
    return (path if path.is_file() else NETS / f"{name}.net").read_text(
        encoding="utf-8")


def images(name):
    """Of what shape, such as "3x32x32"."""
    return next(line.split()[1] for line in text_of(name).splitlines()
                if line.startswith("input "))


def tensors(name):
    """Elements of each, first layer first. A layer's weights come before its
    biases."""
    image, lines = layers_of(text_of(name))
    shapes, found = [], []
    for words, sources in lines:
        shape, counts = layer(words, [shapes[at] if at >= 0 else image
                                      for at in sources])
        shapes.append(shape)
        found += counts
    return found
