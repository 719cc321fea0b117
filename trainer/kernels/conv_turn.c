/* SPDX-License-Identifier: MIT */
/* Rows of weights to columns, for one instruction set: CONV_ISA, with
 * CONV_LANES floats in a register. */
#include "kernels/conv_tile.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)

/* Rows of 16 where registers hold them, else of 4. */
enum { SIDE = CONV_LANES == 16 ? 16 : 4 };

typedef float row __attribute__((vector_size(4 * SIDE)));
/* As floats lie in memory. */
typedef float loose
    __attribute__((vector_size(4 * SIDE), aligned(4), may_alias));

#if CONV_LANES == 16
#define SHUFFLE(a, b, i, j, k, l)                                              \
    __builtin_shufflevector(a, b, i, j, k, l, i + 4, j + 4, k + 4, l + 4,      \
                            i + 8, j + 8, k + 8, l + 8, i + 12, j + 12,        \
                            k + 12, l + 12)
#define SECOND 16
/* Fours of a, from this one on every other, and then of b. */
#define FOURS(a, b, i)                                                         \
    __builtin_shufflevector(a, b, i, i + 1, i + 2, i + 3, i + 8, i + 9,        \
                            i + 10, i + 11, i + 16, i + 17, i + 18, i + 19,    \
                            i + 24, i + 25, i + 26, i + 27)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#define SECOND                    4
#endif

/* Four rows, within each four of their columns. */
static inline void turn_fours(row r[4])
{
    const row a = SHUFFLE(r[0], r[1], 0, SECOND, 1, SECOND + 1);
    const row b = SHUFFLE(r[2], r[3], 0, SECOND, 1, SECOND + 1);
    const row c = SHUFFLE(r[0], r[1], 2, SECOND + 2, 3, SECOND + 3);
    const row d = SHUFFLE(r[2], r[3], 2, SECOND + 2, 3, SECOND + 3);
    r[0] = SHUFFLE(a, b, 0, 1, SECOND, SECOND + 1);
    r[1] = SHUFFLE(a, b, 2, 3, SECOND + 2, SECOND + 3);
    r[2] = SHUFFLE(c, d, 0, 1, SECOND, SECOND + 1);
    r[3] = SHUFFLE(c, d, 2, 3, SECOND + 2, SECOND + 3);
}

static inline void turn_square(row r[SIDE])
{
    for (int i = 0; i < SIDE; i += 4)
        turn_fours(r + i);
#if CONV_LANES == 16
    /* What is left to turn are fours. */
    for (int i = 0; i < 4; i++) {
        const row a = FOURS(r[i], r[4 + i], 0),
                  b = FOURS(r[8 + i], r[12 + i], 0);
        const row c = FOURS(r[i], r[4 + i], 4),
                  d = FOURS(r[8 + i], r[12 + i], 4);
        r[i] = FOURS(a, b, 0);
        r[4 + i] = FOURS(c, d, 0);
        r[8 + i] = FOURS(a, b, 4);
        r[12 + i] = FOURS(c, d, 4);
    }
#endif
}

static void turn(const float *const from[CONV_BLOCK],
                 float *const to[CONV_BLOCK], bool add)
{
    for (int i = 0; i < CONV_BLOCK; i += SIDE)
        for (int j = 0; j < CONV_BLOCK; j += SIDE) {
            row r[SIDE];
            for (int k = 0; k < SIDE; k++)
                r[k] = *(const loose *)(from[i + k] + j);
            turn_square(r);
            for (int k = 0; k < SIDE; k++)
                if (to[j + k]) {
                    loose *at = (loose *)(to[j + k] + i);
                    *at = add ? (row)*at + r[k] : r[k];
                }
        }
}

const struct conv_turn NAME(conv_turn_, CONV_ISA) = {turn};
