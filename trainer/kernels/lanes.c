/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/lanes.h"

#include "kernels/lrn.h"
#include "kernels/pool.h"
#include "kernels/reg.h"

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

static void affine2(const float *z, const float *a, const float *x,
                    const float *b, const float *c, float *y, size_t positions)
{
    for (int k = 0; k < PARTS; k++) {
        const reg ak = load(a + k * LANES), bk = load(b + k * LANES),
                  ck = load(c + k * LANES);
        for (size_t i = (size_t)k * LANES; i < positions * BLOCK; i += BLOCK)
            store(y + i, load(z + i) * ak + (load(x + i) * bk + ck));
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

static void moments(const float *x, const float *shift, size_t positions,
                    double *sums, double *squares)
{
    while (positions) {
        const size_t n = positions < SHORT ? positions : SHORT;
        for (int k = 0; k < PARTS; k++) {
            const reg off = load(shift + k * LANES);
            reg s = {0}, q = {0};
            for (size_t i = (size_t)k * LANES; i < n * BLOCK; i += BLOCK) {
                const reg d = load(x + i) - off;
                s += d;
                q += d * d;
            }
            add_to(sums + k * LANES, s);
            add_to(squares + k * LANES, q);
        }
        x += n * BLOCK;
        positions -= n;
    }
}

const struct lanes NAME(lanes_, CONV_ISA) = {
    .affine = affine,
    .affine2 = affine2,
    .sum = sum,
    .moments = moments,
    .lrn = &NAME(lrn_, CONV_ISA),
    .pool = &NAME(pool_, CONV_ISA),
};
