# SPDX-License-Identifier: MIT
"""From the probabilities of patches to a heat map, regions and scores."""
from patches import PATCH, STEP, sums

LEAST = 3  # squares of STEP pixels that make a region


def auc(labels, scores):
    """The probability that a patch of a lesion has a higher score than another;
    equal ones count half (Mann and Whitney)."""
    order = sorted(range(len(scores)), key=scores.__getitem__)
    ranks, first = 0, 0
    while first < len(order):
        end = first
        while end < len(order) and scores[order[end]] == scores[order[first]]:
            end += 1
        ranks += (first + 1 + end) / 2 * sum(labels[i] for i in order[first:end])
        first = end
    ones = sum(labels)
    return (ranks - ones * (ones + 1) / 2) / (ones * (len(labels) - ones))


def heat_map(corners, probabilities, side):
    """For each square of STEP pixels the mean of the patches that show it, 0 where
    none does: one list a row."""
    n, reach = side // STEP, PATCH // STEP
    total, count = ([[0] * n for _ in range(n)] for _ in range(2))
    for (x, y), p in zip(corners, probabilities):
        for j in range(y // STEP, y // STEP + reach):
            for i in range(x // STEP, x // STEP + reach):
                total[j][i] += p
                count[j][i] += 1
    return [[t / max(c, 1) for t, c in zip(*rows)] for rows in zip(total, count)]


def picture(heat, side):
    """The pixels of a map of squares, as large as the slide: white is 1."""
    rows = [b''.join(bytes([round(255 * p)]) * STEP for p in row)
            .ljust(side, b'\0') for row in heat]
    return b''.join(row * STEP for row in rows).ljust(side * side, b'\0')


def regions(squares):
    """The squares that are true, in groups that hang together by their sides."""
    left = {(i, j) for j, row in enumerate(squares)
            for i, one in enumerate(row) if one}
    groups = []
    for start in sorted(left):
        group, todo = set(), [start]
        while todo:
            i, j = todo.pop()
            if (i, j) in left:
                left.remove((i, j))
                group.add((i, j))
                todo += [(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)]
        if len(group) >= LEAST:
            groups.append(group)
    return groups


def compare(heat, lesion, side):
    """(lesions, those found, [(score, corner, right) of each region]). A lesion is
    found if regions cover half of it, a region is right if half of it is lesion;
    its score is the mean of its squares."""
    truth = [[2 * s > STEP ** 2 for s in row] for row in sums(lesion, side, STEP)]
    lesions = regions(truth)
    found = regions([[p >= 0.5 for p in row] for row in heat])
    covered = set().union(*found)
    hits = sum(2 * len(one & covered) >= len(one) for one in lesions)
    scored = [(sum(heat[j][i] for i, j in one) / len(one),
               tuple(STEP * min(axis) for axis in zip(*one)),
               2 * sum(truth[j][i] for i, j in one) >= len(one))
              for one in found]
    return len(lesions), hits, sorted(scored, reverse=True)
