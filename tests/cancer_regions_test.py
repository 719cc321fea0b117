# SPDX-License-Identifier: MIT
"""examples/cancer_regions: usage cancer_regions_test.py BUILD_FOLDER [WORD ...].
TESTS_THOROUGH=1 also runs all of it, from slides to scores."""
import os
import re
import subprocess
import sys
import tempfile
from random import Random

from tap import CASES, case, chosen, expect, run, slow_case

BUILD = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, '../examples/cancer_regions')
sys.dont_write_bytecode = True
sys.path.insert(0, EXAMPLE)
import patches  # pylint: disable=wrong-import-position
import pictures
import regions
from slides import slide

SIDE = 192


@case
def equal_seeds_give_equal_slides():
    first = slide(3, 5, SIDE)
    expect(first == slide(3, 5, SIDE), 'differ')
    for other in slide(3, 6, SIDE), slide(4, 5, SIDE):
        expect(first[0] != other[0], 'are the same')


@case
def lesions_lie_in_tissue_and_are_as_dark_as_the_rest():
    sums, counts = [0, 0], [0, 0]
    for n in range(12):
        pixels, lesion = slide(1, n, 256)
        expect(set(lesion) <= {0, 1}, 'not a mask')
        corners = list(patches.places(pixels, 256))
        expect(20 < len(corners) < 15 * 15, n, len(corners))
        means = [[], []]
        for xy in corners:
            means[patches.label(lesion, 256, *xy)] += patches.cut(pixels, 256,
                                                                  *xy)
        for kind in (0, 1):
            sums[kind] += sum(means[kind])
            counts[kind] += len(means[kind])
    expect(min(counts) > 12 * 1024, counts)
    one, other = (s / c for s, c in zip(sums, counts))
    expect(abs(one - other) < 6, one, other)


@case
def the_mask_parts_tissue_from_glass():
    pixels = bytes(120 + x % 7 if 40 <= x < 152 and 40 <= y < 152 else 230 + y % 5
                   for y in range(SIDE) for x in range(SIDE))
    expect(patches.tissue_mask(pixels, SIDE)
           == [[5 <= i < 19 and 5 <= j < 19 for i in range(24)]
               for j in range(24)], 'another mask')
    corners = list(patches.places(pixels, SIDE))
    expect(all(24 <= v <= 136 for xy in corners for v in xy)
           and (48, 48) in corners and len(set(corners)) == len(corners), corners)
    expect(patches.cut(pixels, SIDE, 32, 48)[:9]
           == pixels[48 * SIDE + 32:48 * SIDE + 41], 'another patch')


def slow_auc(labels, scores):
    pairs = [(a > b) + (a == b) / 2
             for one, a in zip(labels, scores) if one
             for other, b in zip(labels, scores) if not other]
    return sum(pairs) / len(pairs)


@case
def auc_is_that_of_all_pairs():
    rng = Random(7)
    for n in 2, 3, 10, 60:
        for levels in 1, 2, 5, 10 ** 6:
            labels = [0, 1] + [int(2 * rng.random()) for _ in range(n - 2)]
            scores = [int(levels * rng.random()) / 4 for _ in labels]
            found, right = regions.auc(labels, scores), slow_auc(labels, scores)
            expect(abs(found - right) < 1e-12, labels, scores, found, right)


@case
def heat_is_the_mean_of_the_patches_there():
    heat = regions.heat_map([(0, 0), (16, 0)], [1, 0.5], 64)
    expect(heat == [[1, 0.75, 0.5, 0]] * 2 + [[0] * 4] * 2, heat)
    seen = regions.picture(heat, 70)
    expect(len(seen) == 4900 and seen[0] == 255 and seen[16 + 31 * 70] == 191
           and seen[48] == 0 and seen[69 * 71] == 0, 'another picture')


@case
def regions_are_compared_with_lesions():
    lesion = bytes(int(y < 32 and (x < 32 or 96 <= x < 128))
                   for y in range(128) for x in range(128))
    heat = [[0.0] * 8 for _ in range(8)]
    for j, i in (0, 0), (0, 1), (1, 1), (4, 7):  # 3 of 4 squares; none
        heat[j][i] = 0.75
    for j, i in (1, 6), (2, 6), (2, 5):  # 1 of 4, and that is 1 of 3
        heat[j][i] = 0.5
    expect(regions.compare(heat, lesion, 128)
           == (2, 1, [(0.75, (0, 0), True), (0.5, (80, 16), False)]),
           regions.compare(heat, lesion, 128))


@case
def pictures_have_a_head_and_all_pixels():
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'a.pgm')
        pictures.write_pgm(file, bytes(range(6)), 3)
        with open(file, 'rb') as stream:
            expect(stream.read() == b'P5\n3 2\n255\n' + bytes(range(6)), 'differs')
        expect(os.listdir(folder) == ['a.pgm'], os.listdir(folder))


def example(*options):
    return subprocess.run(
        [sys.executable, os.path.join(EXAMPLE, 'run'), '--build', BUILD, *options],
        env={**os.environ, 'OPENBLAS_NUM_THREADS': '1', 'COLL_CALIBRATE': 'off'},
        capture_output=True, text=True, timeout=240)


@case
def bad_options_are_refused_in_one_line():
    for options, words in ((['--side', '20'], ('--side', '20', '128 to 4096')),
                           (['--tau', 'x'], ('--tau', '"x"', '1 to')),
                           (['--seed'], ('--seed',)),
                           (['--build', '/none'], ('--build', '/none', 'ninja')),
                           (['--out', '/dev/null/a'], ('--out', '/dev/null/a'))):
        done = example(*options)
        expect(done.returncode == 2 and done.stderr.count('\n') == 1
               and all(word in done.stderr for word in words), options,
               done.returncode, done.stderr)


def expect_pgm(file, side):
    with open(file, 'rb') as stream:
        data = stream.read()
    head = b'P5\n%d %d\n255\n' % (side, side)
    expect(data.startswith(head) and len(data) == len(head) + side * side
           and len(set(data[len(head):])) > 1, file)


@slow_case
def four_ranks_with_tau_8_find_lesions():
    with tempfile.TemporaryDirectory() as folder:
        done = example('--out', folder, '--train', '12', '--test', '4', '--side',
                       '384')
        expect(done.returncode == 0, done.stdout, done.stderr)
        print('#', done.stdout.strip().replace('\n', '\n# '))
        expect('-n 4 ' in done.stdout and
               '--strategy decentralized-easgd --tau 8' in done.stdout)
        scores = re.search(r'patch accuracy (\S+)  patch AUC (\S+)  lesions found '
                           r'(\d+) of (\d+)  false regions (\d+)', done.stdout)
        expect(float(scores[2]) >= 0.95, scores[0])
        expect(2 * int(scores[3]) >= int(scores[4]) > 0, scores[0])
        dark = re.findall(r'darkness alone (\S+)', done.stdout)
        expect(len(dark) == 2 and all(0.3 < float(a) < 0.7 for a in dark), dark)
        for n in range(4):
            for name in 'slide', 'lesion', 'heat':
                expect_pgm(f'{folder}/{name}-{n:02}.pgm', 384)


if __name__ == '__main__':
    sys.exit(run(chosen(CASES)))
