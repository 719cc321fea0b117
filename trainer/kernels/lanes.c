/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/lanes.h"

#include "kernels/code.h"
#include "kernels/lrn.h"
#include "kernels/pool.h"
#include "kernels/quarters.h"
#include "kernels/reg.h"
#include "kernels/rows.h"
#include "kernels/spread.h"

enum { SHORT = 64 };

static void affine(const float *x, const float *times, const float *plus,
                   float *y, size_t positions)
{
    const struct row t = row_of(times), p = row_of(plus);
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES)
            store(y + i, load(x + i) * t.part[k] + p.part[k]);
}

INLINE void add_row(struct row *s, const float *x)
{
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++)
        s->part[k] += load(x + k * LANES);
}

static void sum_alone(const float *x, size_t positions, double *sums)
{
    while (positions) {
        const size_t n = positions < SHORT ? positions : SHORT;
        struct row s[ROWS_AT_ONCE] = {0};
        size_t i = 0;
        for (; i + ROWS_AT_ONCE <= n; i += ROWS_AT_ONCE)
#pragma GCC unroll 4
            for (int j = 0; j < ROWS_AT_ONCE; j++, x += BLOCK)
                add_row(&s[j], x);
        for (; i < n; i++, x += BLOCK)
            add_row(&s[0], x);
        add_rows(sums, s, ROWS_AT_ONCE);
        positions -= n;
    }
}

static void sum(const float *x, const float *z, const float *shift,
                size_t positions, double *sums, double *products)
{
    if (!z) {
        sum_alone(x, positions, sums);
        return;
    }
    const struct row off = row_of(shift);
    while (positions) {
        const size_t n = positions < SHORT ? positions : SHORT;
        struct row s = {0}, p = {0};
        for (size_t i = 0; i < n; i++, x += BLOCK, z += BLOCK)
#pragma GCC unroll 4
            for (int k = 0; k < PARTS; k++) {
                const reg v = load(x + k * LANES);
                s.part[k] += v;
                p.part[k] += v * (load(z + k * LANES) - off.part[k]);
            }
        add_rows(sums, &s, 1);
        add_rows(products, &p, 1);
        positions -= n;
    }
}

const struct lanes NAME(lanes_, CONV_ISA) = {
    .affine = affine,
    .sum = sum,
    .code = &NAME(code_, CONV_ISA),
    .lrn = &NAME(lrn_, CONV_ISA),
    .pool = &NAME(pool_, CONV_ISA),
    .quarters = &NAME(quarters_, CONV_ISA),
    .rows = &NAME(rows_, CONV_ISA),
    .spread = &NAME(spread_, CONV_ISA),
};
