/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/lanes.h"

#include "kernels/code.h"
#include "kernels/lrn.h"
#include "kernels/norm.h"
#include "kernels/pool.h"
#include "kernels/quarters.h"
#include "kernels/reg.h"
#include "kernels/rows.h"

enum { SHORT = 64 };

static void affine(const float *x, const float *times, const float *plus,
                   float *y, size_t positions)
{
    for (int k = 0; k < PARTS; k++) {
        const reg t = load(times + k * LANES), p = load(plus + k * LANES);
        for (size_t i = (size_t)k * LANES; i < positions * BLOCK; i += BLOCK)
            store(y + i, load(x + i) * t + p);
    }
}

static void add_to(double *sums, reg part)
{
    for (int k = 0; k < LANES; k++)
        sums[k] += (double)part[k];
}

static void sum(const float *x, const float *z, const float *shift,
                size_t positions, double *sums, double *products)
{
    while (positions) {
        const size_t n = positions < SHORT ? positions : SHORT;
        for (int k = 0; k < PARTS; k++) {
            reg s = {0}, p = {0};
            if (z) {
                const reg off = load(shift + k * LANES);
                for (size_t i = (size_t)k * LANES; i < n * BLOCK; i += BLOCK) {
                    const reg v = load(x + i);
                    s += v;
                    p += v * (load(z + i) - off);
                }
                add_to(products + k * LANES, p);
            } else {
                for (size_t i = (size_t)k * LANES; i < n * BLOCK; i += BLOCK)
                    s += load(x + i);
            }
            add_to(sums + k * LANES, s);
        }
        x += n * BLOCK;
        z = z ? z + n * BLOCK : NULL;
        positions -= n;
    }
}

const struct lanes NAME(lanes_, CONV_ISA) = {
    .affine = affine,
    .sum = sum,
    .code = &NAME(code_, CONV_ISA),
    .lrn = &NAME(lrn_, CONV_ISA),
    .norm = &NAME(norm_, CONV_ISA),
    .pool = &NAME(pool_, CONV_ISA),
    .quarters = &NAME(quarters_, CONV_ISA),
    .rows = &NAME(rows_, CONV_ISA),
};
