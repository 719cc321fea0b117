/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/lanes.h"

#include "tensor.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)

enum { LANES = CONV_LANES, PARTS = BLOCK / LANES, SHORT = 64 };

typedef float reg __attribute__((vector_size(4 * CONV_LANES)));
/* As floats lie in memory. */
typedef float vec
    __attribute__((vector_size(4 * CONV_LANES), aligned(4), may_alias));
typedef int mask __attribute__((vector_size(4 * CONV_LANES)));

static inline reg load(const float *x)
{
    return *(const vec *)x;
}

static inline void store(float *x, reg v)
{
    *(vec *)x = v;
}

/* a where m is set, else b. */
static inline reg choose(mask m, reg a, reg b)
{
    return (reg)(((mask)a & m) | ((mask)b & ~m));
}

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

static void largest(const float *x, struct lanes_window w, float *y)
{
    for (int k = 0; k < PARTS; k++) {
        reg best = load(x + k * LANES);
        for (int i = 0; i < w.rows; i++)
            for (int j = 0; j < w.columns; j++) {
                const reg v =
                    load(x + (size_t)i * w.row + j * BLOCK + k * LANES);
                best = choose(v > best, v, best);
            }
        store(y + k * LANES, best);
    }
}

static void to_largest(const float *x, struct lanes_window w, const float *y,
                       const float *dy, float *dx)
{
    for (int k = 0; k < PARTS; k++) {
        const reg most = load(y + k * LANES), none = {0};
        reg left = load(dy + k * LANES); /* what is not given yet */
        for (int i = 0; i < w.rows; i++)
            for (int j = 0; j < w.columns; j++) {
                const size_t at = (size_t)i * w.row + j * BLOCK + k * LANES;
                const mask here = load(x + at) == most;
                store(dx + at, load(dx + at) + choose(here, left, none));
                left = choose(here, none, left);
            }
    }
}

const struct lanes NAME(lanes_, CONV_ISA) = {
    .affine = affine,
    .affine2 = affine2,
    .sum = sum,
    .moments = moments,
    .largest = largest,
    .to_largest = to_largest,
};
