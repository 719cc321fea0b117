/* SPDX-License-Identifier: MIT */
/* Batch normalisation of positions of 16 channels, with or without a relu after
 * it, compiled for each row of isas.def. Where the relu's gradient passes is
 * computed again from x, so that nobody reads y. Short sums are float, long
 * ones double. */
#ifndef TRAINER_KERNELS_NORM_H
#define TRAINER_KERNELS_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor.h"

struct norm {
    bool relu;
    /* x and dx, or y, dy and what is more, are bf16, two in a float's place */
    bool half_x, half_y;
    bool stream; /* y or dx goes to memory past the caches; lines of 64 bytes */
    float mean[BLOCK];
    float times[BLOCK], plus[BLOCK]; /* y = x times + plus, and more */
    float of_dy[BLOCK], of_x[BLOCK],
        one[BLOCK]; /* dx = dy of_dy + x of_x + one */
};

struct norm_loops {
    /* sums += x - mean, squares += (x - mean)^2 */
    void (*moments)(const struct norm *, const float *x, size_t positions,
                    double *sums, double *squares);
    /* more: NULL for none; may be y */
    void (*forward)(const struct norm *, const float *x, const float *more,
                    float *y, size_t positions);
    /* sums += dy, products += dy (x - mean), of what the relu passes */
    void (*sums)(const struct norm *, const float *dy, const float *x,
                 size_t positions, double *sums, double *products);
    /* dx may be dy, if both or none are bf16 */
    void (*backward)(const struct norm *, const float *dy, const float *x,
                     float *dx, size_t positions);
};

/* Those for it, of the instruction set that lanes() has, with what rounds to
 * bf16 fast where the processor has it. */
const struct norm_loops *norm_loops(const struct norm *);

#define ISA(name)                                                              \
    extern const struct norm_loops norm_##name, norm_bf16_##name;
#include "kernels/isas.def"
#undef ISA

#endif
