# SPDX-License-Identifier: MIT
"""Patches of the tissue of a slide, in the files that coll_train reads."""
import os
import struct

from pictures import write

PATCH, STEP = 32, 16  # pixels of a side; from one patch to the next
BLOCK = 8             # side of the squares by whose means tissue is found


def sums(pixels, side, square):
    """The sum of each square of the slide, row by row; one list a row."""
    n = side // square
    lines = [[sum(pixels[y * side + square * i:y * side + square * (i + 1)])
              for i in range(n)] for y in range(n * square)]
    return [[sum(column) for column in zip(*lines[square * i:square * (i + 1)])]
            for i in range(n)]


def otsu(values):
    """The level that parts numbers from 0 to 255 into two groups, each of which
    differs least in itself (Otsu 1979)."""
    counts = [0] * 256
    for value in values:
        counts[value] += 1
    best, level, below, weight = -1, 255, 0, 0
    total = sum(i * n for i, n in enumerate(counts))
    for i, n in enumerate(counts[:-1]):
        weight, below = weight + n, below + i * n
        rest = len(values) - weight
        if not weight or not rest:
            continue
        between = weight * rest * (below / weight - (total - below) / rest) ** 2
        if between > best:
            best, level = between, i
    return level


def tissue_mask(pixels, side):
    """Whether each square of BLOCK pixels is tissue: one list a row."""
    means = [[s // BLOCK ** 2 for s in row] for row in sums(pixels, side, BLOCK)]
    level = otsu([mean for row in means for mean in row])
    return [[mean <= level for mean in row] for row in means]


def places(pixels, side):
    """The corners (x, y) of the patches that are at least half tissue."""
    mask, n = tissue_mask(pixels, side), PATCH // BLOCK
    for y in range(0, side - PATCH + 1, STEP):
        for x in range(0, side - PATCH + 1, STEP):
            i, j = x // BLOCK, y // BLOCK
            if 2 * sum(sum(row[i:i + n]) for row in mask[j:j + n]) >= n * n:
                yield x, y


def cut(area, side, x, y):
    return b''.join(area[(y + i) * side + x:(y + i) * side + x + PATCH]
                    for i in range(PATCH))


def label(lesion, side, x, y):
    """1 if most of the patch lies in a lesion."""
    return int(2 * sum(cut(lesion, side, x, y)) > PATCH ** 2)


def write_idx(folder, part, patches, labels):
    """part: train or t10k."""
    def head(*sizes):
        return struct.pack(f'>BBBB{len(sizes)}I', 0, 0, 8, len(sizes), *sizes)
    start = os.path.join(folder, part)
    write(start + '-images-idx3-ubyte',
          head(len(patches), PATCH, PATCH) + b''.join(patches))
    write(start + '-labels-idx1-ubyte', head(len(labels)) + bytes(labels))
