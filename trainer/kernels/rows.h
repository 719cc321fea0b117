/* SPDX-License-Identifier: MIT */
/* Products of few rows (images) with many (a dense layer's weights), compiled
 * for each row of isas.def. */
#ifndef TRAINER_KERNELS_ROWS_H
#define TRAINER_KERNELS_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* to[r][c] = sum over terms t of by[r by_row + t by_term] from[t][c], with rows
 * of so many floats. Terms whose `by` is 0 may be left out. */
struct rows_sum {
    float *to;
    size_t to_next;
    int rows, columns, terms;
    const float *by;
    size_t by_row, by_term;
    const float *from;
    size_t from_next;
    bool turned; /* from[c][t] */
    bool add;    /* to `to` */
};

struct rows_loops {
    void (*sum)(const struct rows_sum *);
};

#define ISA(name) extern const struct rows_loops rows_##name;
#include "kernels/isas.def"
#undef ISA

#endif
