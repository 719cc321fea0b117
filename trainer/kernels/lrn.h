/* SPDX-License-Identifier: MIT */
/* Local response normalisation of some positions, compiled for each row of
 * isas.def: with s = k + share * sum of squares over `size` channels around it,
 *
 *     y = x s^-beta
 *     dx = dy s^-beta - 2 beta share x * sum of dy x s^-(beta + 1) around it
 *
 * 1 / s and two roots make s^-0.75, other powers go one by one. */
#ifndef TRAINER_KERNELS_LRN_H
#define TRAINER_KERNELS_LRN_H

#include <stdbool.h>
#include <stddef.h>

enum { LRN_POSITIONS = 16 }; /* at most in a call */

struct lrn {
    int blocks, size; /* of 16 channels; channels of a sum, odd */
    float share, beta, k;
    size_t next; /* floats to the next block of a tensor */
    /* lrn_lines() floats each, zero at first; slopes are backward's. */
    float *squares, *slopes;
};

static inline size_t lrn_lines(int blocks, int size)
{
    return LRN_POSITIONS * ((size_t)blocks * 16 + (size_t)size);
}

struct lrn_loops {
    void (*forward)(const struct lrn *, const float *x, float *y,
                    size_t positions);
    void (*backward)(const struct lrn *, const float *x, const float *dy,
                     float *dx, size_t positions);
};

#define ISA(name) extern const struct lrn_loops lrn_##name;
#include "kernels/isas.def"
#undef ISA

#endif
