/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/quarters.h"

#include "kernels/reg.h"

static void left(const float *const a[QUARTERS], float *const s[QUARTERS],
                 size_t n)
{
    const float *const a11 = a[Q11], *const a12 = a[Q12], *const a21 = a[Q21],
                       *const a22 = a[Q22];
    float *const s1 = s[0], *const s2 = s[1], *const s3 = s[2],
                 *const s4 = s[3];
    for (size_t i = 0; i < n; i += LANES) {
        const reg first = load(a11 + i), second = load(a12 + i);
        const reg third = load(a21 + i), sum = third + load(a22 + i);
        store(s1 + i, sum);
        store(s2 + i, sum - first);
        store(s3 + i, first - third);
        store(s4 + i, second - (sum - first));
    }
}

static void right(const float *const b[QUARTERS], float *const t[QUARTERS],
                  size_t n)
{
    const float *const b11 = b[Q11], *const b12 = b[Q12], *const b21 = b[Q21],
                       *const b22 = b[Q22];
    float *const t1 = t[0], *const t2 = t[1], *const t3 = t[2],
                 *const t4 = t[3];
    for (size_t i = 0; i < n; i += LANES) {
        const reg second = load(b12 + i), third = load(b21 + i);
        const reg fourth = load(b22 + i), one = second - load(b11 + i);
        store(t1 + i, one);
        store(t2 + i, fourth - one);
        store(t3 + i, fourth - second);
        store(t4 + i, third - (fourth - one));
    }
}

static void meet(const float *const p[QUARTERS], const float *const plus[2],
                 float *const c[QUARTERS], size_t positions, bool relu,
                 const float *gate)
{
    const float *const p1 = p[0], *const p2 = p[1], *const p3 = p[2],
                       *const p4 = p[3];
    float *const c11 = c[Q11], *const c12 = c[Q12], *const c21 = c[Q21],
                 *const c22 = c[Q22];
    struct row upper = {0}, lower = {0};
    if (plus) {
        upper = row_of(plus[0]);
        lower = row_of(plus[1]);
    }
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES) {
            const reg up = upper.part[k], low = lower.part[k];
            const reg one = load(p1 + i), third = load(p3 + i);
            const reg u = one + load(p2 + i), last = u + load(p4 + i);
            store(c11 + i, one + (plus ? up : load(c11 + i)));
            store(c12 + i, u + third + (plus ? up : load(c12 + i)));
            store(c21 + i, last + (plus ? low : load(c21 + i)));
            reg whole = last + third + (plus ? low : load(c22 + i));
            if (relu)
                whole = where_above(whole, whole);
            if (gate)
                whole = where_above(load(gate + i), whole);
            store(c22 + i, whole);
        }
}

const struct quarters_loops NAME(quarters_, CONV_ISA) = {left, right, meet};
