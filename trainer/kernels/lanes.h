/* SPDX-License-Identifier: MIT */
/* Loops over positions of 16 channels, compiled for each row of isas.def. What
 * has one number a channel is an array of 16. Arrays may be the same, but not
 * overlap otherwise. */
#ifndef TRAINER_KERNELS_LANES_H
#define TRAINER_KERNELS_LANES_H

#include <stddef.h>

struct lanes {
    /* y = x times + plus */
    void (*affine)(const float *x, const float *times, const float *plus,
                   float *y, size_t positions);
    /* sums += x, products += x (z - shift). z may be NULL: no products. Short
     * sums are float, long ones double. */
    void (*sum)(const float *x, const float *z, const float *shift,
                size_t positions, double *sums, double *products);
    const struct code_loops *code;
    const struct lrn_loops *lrn;
    const struct pool_loops *pool;
    const struct quarters_loops *quarters;
    const struct rows_loops *rows;
    const struct spread_loops *spread;
};

/* Of the instruction set that conv_use() has set, else of the best. */
const struct lanes *lanes(void);

#define ISA(name) extern const struct lanes lanes_##name;
#include "kernels/isas.def"
#undef ISA

#endif
