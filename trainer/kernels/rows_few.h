/* SPDX-License-Identifier: MIT */
/* Products of rows so few that memory, which has what is summed, sets the pace:
 * that is read in order, some rows of it side by side, and never copied. Terms
 * are added in their order, as tiles of more rows do it. For files that are
 * compiled for each row of isas.def. */
#ifndef TRAINER_KERNELS_ROWS_FEW_H
#define TRAINER_KERNELS_ROWS_FEW_H

#include <string.h>

#include "kernels/reg.h"
#include "kernels/rows.h"
#include "kernels/turn.h"

enum {
    FEW_ROWS = 8,
    FEW_TERMS = 8,   /* rows of `from` side by side, where they are terms; */
    FEW_NEAR = 1024, /* so many terms, where they are columns */
    FEW_AHEAD = 256, /* floats that are asked for before they are read */
};

/* DO(rows) for as many as are left, from `row` on. */
#define FEW_EACH(row, rows, DO)                                                \
    for (; (row) + 8 <= (rows); (row) += 8)                                    \
        DO(8);                                                                 \
    for (; (row) + 4 <= (rows); (row) += 4)                                    \
        DO(4);                                                                 \
    for (; (row) + 2 <= (rows); (row) += 2)                                    \
        DO(2);                                                                 \
    for (; (row) < (rows); (row)++)                                            \
        DO(1);

/* --- columns that lie in rows -----------------------------------------------
 * They are turned in registers.
 */

/* The first n lanes, and zeros. */
INLINE side few_part(const float *x, int n)
{
    float part[SIDE] = {0};
    if (n >= SIDE)
        return *(const loose *)x;
    memcpy(part, x, (size_t)n * sizeof(float));
    return *(const loose *)part;
}

/* A register of columns, and terms from `first` to end - 1. */
PER_CASE void few_turned(const struct rows_sum *s, int row, int column,
                         int first, int end, const int nrows)
{
    const float *from = s->from + (size_t)column * s->from_next;
    const float *by = s->by + (size_t)row * s->by_row;
    float *to = s->to + (size_t)row * s->to_next + column;
    const bool add = s->add || first;
    side sums[FEW_ROWS];
    UNROLL(8)
    for (int i = 0; i < nrows; i++) {
        sums[i] = (side){0};
        if (add)
            sums[i] = *(const loose *)(to + (size_t)i * s->to_next);
    }
    for (int t = first; t < end; t += SIDE) {
        const int n = least(end - t, SIDE);
        side v[SIDE];
        UNROLL(16)
        for (int k = 0; k < SIDE; k++) {
            const float *at = from + (size_t)k * s->from_next + t;
            v[k] = few_part(at, n);
            __builtin_prefetch(at + FEW_AHEAD);
        }
        turn_square(v);
        UNROLL(16)
        for (int k = 0; k < SIDE; k++) {
            UNROLL(8)
            for (int i = 0; i < nrows && k < n; i++)
                sums[i] +=
                    v[k]
                    * (by[(size_t)i * s->by_row + (size_t)(t + k) * s->by_term]
                       - (side){0});
        }
    }
    UNROLL(8)
    for (int i = 0; i < nrows; i++)
        *(loose *)(to + (size_t)i * s->to_next) = sums[i];
}

/* Whole registers of columns; returns how many columns these are. */
static int few_columns(const struct rows_sum *s)
{
    const int columns = s->terms ? s->columns / SIDE * SIDE : 0;
#define TURNED(n) few_turned(s, row, c, t, end, n)
    for (int c = 0; c < columns; c += SIDE)
        for (int t = 0; t < s->terms; t += FEW_NEAR) {
            const int end = least(t + FEW_NEAR, s->terms);
            int row = 0;
            FEW_EACH(row, s->rows, TURNED)
        }
#undef TURNED
    return columns;
}

/* --- terms that lie in rows ------------------------------------------------
 */

PER_CASE void few_sums(const struct rows_sum *s, int row, int term, int columns,
                       const int nrows, const int nterms)
{
    const float *by =
        s->by + (size_t)row * s->by_row + (size_t)term * s->by_term;
    const float *from = s->from + (size_t)term * s->from_next;
    for (int c = 0; c < columns; c += LANES) {
        reg v[FEW_TERMS];
        UNROLL(8)
        for (int t = 0; t < nterms; t++)
            v[t] = load(from + (size_t)t * s->from_next + c);
        UNROLL(8)
        for (int i = 0; i < nrows; i++) {
            float *to = s->to + (size_t)(row + i) * s->to_next + c;
            reg sum = load(to);
            UNROLL(8)
            for (int t = 0; t < nterms; t++)
                sum += v[t]
                       * (by[(size_t)i * s->by_row + (size_t)t * s->by_term]
                          - (reg){0});
            store(to, sum);
        }
    }
}

/* The same. They start from zeros in memory: were that asked in the loop, a
 * compiler might take products out of it and so round them by themselves. */
static int few_terms(const struct rows_sum *s)
{
    const int columns = s->terms ? s->columns / LANES * LANES : 0;
    int t = 0;
    for (int i = 0; i < s->rows && !s->add; i++)
        memset(s->to + (size_t)i * s->to_next, 0,
               (size_t)columns * sizeof(float));
#define SUMS(n) few_sums(s, row, t, columns, n, FEW_TERMS)
    for (; t + FEW_TERMS <= s->terms; t += FEW_TERMS) {
        int row = 0;
        FEW_EACH(row, s->rows, SUMS)
    }
#undef SUMS
#define SUM(n) few_sums(s, row, t, columns, n, 1)
    for (; t < s->terms; t++) {
        int row = 0;
        FEW_EACH(row, s->rows, SUM)
    }
#undef SUM
    return columns;
}

#endif
