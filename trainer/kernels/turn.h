/* SPDX-License-Identifier: MIT */
/* A square of floats to its transpose, in registers: for files compiled for
 * each row of isas.def. */
#ifndef TRAINER_KERNELS_TURN_H
#define TRAINER_KERNELS_TURN_H

#include "kernels/reg.h"

/* Rows of 16 where registers hold them, else of 4. */
enum { SIDE = CONV_LANES == 16 ? 16 : 4 };

typedef float side __attribute__((vector_size(4 * SIDE)));
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
INLINE void turn_fours(side r[4])
{
    const side a = SHUFFLE(r[0], r[1], 0, SECOND, 1, SECOND + 1);
    const side b = SHUFFLE(r[2], r[3], 0, SECOND, 1, SECOND + 1);
    const side c = SHUFFLE(r[0], r[1], 2, SECOND + 2, 3, SECOND + 3);
    const side d = SHUFFLE(r[2], r[3], 2, SECOND + 2, 3, SECOND + 3);
    r[0] = SHUFFLE(a, b, 0, 1, SECOND, SECOND + 1);
    r[1] = SHUFFLE(a, b, 2, 3, SECOND + 2, SECOND + 3);
    r[2] = SHUFFLE(c, d, 0, 1, SECOND, SECOND + 1);
    r[3] = SHUFFLE(c, d, 2, 3, SECOND + 2, SECOND + 3);
}

INLINE void turn_square(side r[SIDE])
{
    for (int i = 0; i < SIDE; i += 4)
        turn_fours(r + i);
#if CONV_LANES == 16
    /* What is left to turn are fours. */
    for (int i = 0; i < 4; i++) {
        const side a = FOURS(r[i], r[4 + i], 0),
                   b = FOURS(r[8 + i], r[12 + i], 0);
        const side c = FOURS(r[i], r[4 + i], 4),
                   d = FOURS(r[8 + i], r[12 + i], 4);
        r[i] = FOURS(a, b, 0);
        r[4 + i] = FOURS(c, d, 0);
        r[8 + i] = FOURS(a, b, 4);
        r[12 + i] = FOURS(c, d, 4);
    }
#endif
}

#endif
