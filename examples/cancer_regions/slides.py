# SPDX-License-Identifier: MIT
"""Made-up microscope slides: grey tissue on glass, with lesions in it.

Both kinds of tissue have equally many dark pixels, so that neither the mean nor
the spread of a patch tells them apart. What differs is how these lie: in a square
of CELL pixels either one large nucleus or four small ones, and in lesions more
squares have a large one. How many varies from place to place in both kinds.
"""
from operator import and_
from random import Random

CELL = 12
GLASS = 236
SMALL, LARGE = ([(x, y) for y in range(-3, 4) for x in range(-3, 4)
                 if x * x + y * y <= radius2]
                for radius2 in (2, 10))  # of 9 and 37 pixels: 4 * 9 is nearly 37
SPACING = 64  # of the points between which stain and mixture vary smoothly


def field(rng, side):
    """A function of a row's number: what is smooth there, from 0 to 1."""
    n = side // SPACING + 2
    points = [[rng.random() for _ in range(n)] for _ in range(n)]

    def row(y):
        i, part = y // SPACING, y % SPACING / SPACING
        line = [a + (b - a) * part for a, b in zip(points[i], points[i + 1])]
        return [line[x // SPACING] + (line[x // SPACING + 1] - line[x // SPACING])
                * (x % SPACING) / SPACING for x in range(side)]
    return row


def fill_ellipse(area, side, centre, radii, direction):
    """Sets to 1 what lies within; direction: of the first radius, of length 1."""
    (u, v), (r, s) = direction, radii
    a = (u / r) ** 2 + (v / s) ** 2
    b = 2 * u * v * (1 / r ** 2 - 1 / s ** 2)
    c = (v / r) ** 2 + (u / s) ** 2
    for y in range(side):
        dy = y - centre[1]
        inside = (b * dy) ** 2 - 4 * a * (c * dy * dy - 1)
        if inside <= 0:
            continue
        middle, half = centre[0] - b * dy / (2 * a), inside ** 0.5 / (2 * a)
        first = min(max(int(middle - half) + 1, 0), side)
        end = min(max(int(middle + half) + 1, first), side)
        area[y * side + first:y * side + end] = b'\1' * (end - first)


def direction(rng):
    while True:
        u, v = 2 * rng.random() - 1, 2 * rng.random() - 1
        length = (u * u + v * v) ** 0.5
        if 0.1 < length <= 1:
            return u / length, v / length


def ellipses(rng, side, count, least, most, near):
    """An area of so many, with radii and places as parts of the side; near: how
    far centres may be from the middle."""
    area = bytearray(side * side)
    for _ in range(count):
        centre = [side * (0.5 + near * (2 * rng.random() - 1)) for _ in 'xy']
        radii = [side * (least + (most - least) * rng.random()) for _ in 'xy']
        fill_ellipse(area, side, centre, radii, direction(rng))
    return area


def draw(dark, side, rng, shape, x, y):
    depth = 50 + int(40 * rng.random())
    for dx, dy in shape:
        if 0 <= x + dx < side and 0 <= y + dy < side:
            dark[(y + dy) * side + x + dx] = depth


def nuclei(rng, side, lesion):
    """How much darker each pixel is."""
    dark, mixture = bytearray(side * side), field(rng, side)
    for top in range(0, side, CELL):
        mixed = mixture(min(top + CELL // 2, side - 1))
        for left in range(0, side, CELL):
            x, y = (min(at + CELL // 2, side - 1) for at in (left, top))
            large = 0.25 * mixed[x] + (0.65 if lesion[y * side + x] else 0)
            if rng.random() < large:
                draw(dark, side, rng, LARGE, left + 3 + int(6 * rng.random()),
                     top + 3 + int(6 * rng.random()))
                continue
            for i in range(4):
                draw(dark, side, rng, SMALL,
                     left + 6 * (i % 2) + 1 + int(4 * rng.random()),
                     top + 6 * (i // 2) + 1 + int(4 * rng.random()))
    return dark


def slide(seed, number, side):
    """The grey levels of slide `number`, and 1 for its pixels in a lesion: bytes,
    row by row. The same arguments give the same slide."""
    rng = Random(f'{seed} {number}')
    tissue = ellipses(rng, side, 4, 0.22, 0.38, 0.18)
    lesion = bytes(map(and_, tissue, ellipses(
        rng, side, 1 + int(3 * rng.random()), 0.1, 0.2, 0.25)))
    dark, stain, light = nuclei(rng, side, lesion), field(rng, side), []
    tone = 140 + 40 * rng.random()
    for y in range(side):
        row = slice(y * side, (y + 1) * side)
        light += [int(tone + 40 * s) - d + n % 24 if t else GLASS + n % 8
                  for s, d, t, n in zip(stain(y), dark[row], tissue[row],
                                        rng.getrandbits(8 * side).to_bytes(
                                            side, 'little'))]
    return bytes(light), lesion
