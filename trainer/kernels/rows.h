/* SPDX-License-Identifier: MIT */
/* Products of few rows (images) with many (a dense layer's weights), compiled
 * for each row of isas.def. The many are read once and as they lie: a library
 * copies them first, into an order that pays where both are many. */
#ifndef TRAINER_KERNELS_ROWS_H
#define TRAINER_KERNELS_ROWS_H

#include <stddef.h>

/* Rows of floats, so many floats apart. */
struct rows {
    float *x;
    int count;
    size_t next;
};

struct rows_loops {
    /* y[i][j] += sum over `columns` of a[i] b[j] */
    void (*dots)(struct rows a, struct rows b, int columns, struct rows y);

    /* to[i] += sum over j of by[i to_step + j from_step] from[j], in `columns`
     */
    void (*add_up)(struct rows to, struct rows from, int columns,
                   const float *by, size_t to_step, size_t from_step);
};

#define ISA(name) extern const struct rows_loops rows_##name;
#include "kernels/isas.def"
#undef ISA

#endif
