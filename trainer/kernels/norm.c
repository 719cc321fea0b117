/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/reg.h"

enum { SHORT = 64 };

/* Without reading the line first, where that can be said and a line is written
 * at once. */
INLINE void put(float *x, reg v, bool stream)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    if (stream) {
        _mm512_stream_ps(x, (__m512)v);
        return;
    }
#elif defined(__AVX__) && CONV_LANES == 8
    if (stream) {
        _mm256_stream_ps(x, (__m256)v);
        return;
    }
#endif
    (void)stream;
    store(x, v);
}

/* What was put so is there for other threads. */
INLINE void finish(bool stream)
{
#if defined(__x86_64__)
    if (stream)
        _mm_sfence();
#endif
    (void)stream;
}

INLINE void add_moments(struct row *s, struct row *q, const float *x,
                        const struct row *shift)
{
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++) {
        const reg d = load(x + k * LANES) - shift->part[k];
        s->part[k] += d;
        q->part[k] += d * d;
    }
}

static void moments(const float *x, const float *shift, size_t positions,
                    double *sums, double *squares)
{
    const struct row off = row_of(shift);
    while (positions) {
        const size_t n = positions < SHORT ? positions : SHORT;
        struct row s[ROWS_AT_ONCE] = {0}, q[ROWS_AT_ONCE] = {0};
        size_t i = 0;
        for (; i + ROWS_AT_ONCE <= n;
             i += ROWS_AT_ONCE, x += ROWS_AT_ONCE * BLOCK)
#pragma GCC unroll 4
            for (int j = 0; j < ROWS_AT_ONCE; j++)
                add_moments(&s[j], &q[j], x + j * BLOCK, &off);
        for (; i < n; i++, x += BLOCK)
            add_moments(&s[0], &q[0], x, &off);
        add_rows(sums, s, ROWS_AT_ONCE);
        add_rows(squares, q, ROWS_AT_ONCE);
        positions -= n;
    }
}

INLINE void forward_of(const struct norm *n, const float *x, const float *more,
                       float *y, size_t positions, bool relu, bool stream)
{
    const struct row t = row_of(n->times), p = row_of(n->plus);
    const reg zero = {0};
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES) {
            reg v = load(x + i) * t.part[k] + p.part[k];
            if (more)
                v += load(more + i);
            put(y + i, relu ? choose(v > zero, v, zero) : v, stream);
        }
    finish(stream);
}

INLINE void forward_by(const struct norm *n, const float *x, const float *more,
                       float *y, size_t positions)
{
    if (n->relu && n->stream)
        forward_of(n, x, more, y, positions, true, true);
    else if (n->relu)
        forward_of(n, x, more, y, positions, true, false);
    else if (n->stream)
        forward_of(n, x, more, y, positions, false, true);
    else
        forward_of(n, x, more, y, positions, false, false);
}

static void forward(const struct norm *n, const float *x, const float *more,
                    float *y, size_t positions)
{
    if (more)
        forward_by(n, x, more, y, positions);
    else
        forward_by(n, x, NULL, y, positions);
}

/* dy where the relu passes it. */
INLINE reg passed(const float *dy, reg x, reg t, reg p, bool relu)
{
    const reg d = load(dy), zero = {0};
    return relu ? choose(x * t + p > zero, d, zero) : d;
}

INLINE void add_products(struct row *s, struct row *q, const float *dy,
                         const float *x, const struct row *t,
                         const struct row *p, const struct row *mean, bool relu)
{
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++) {
        const reg v = load(x + k * LANES);
        const reg d = passed(dy + k * LANES, v, t->part[k], p->part[k], relu);
        s->part[k] += d;
        q->part[k] += d * (v - mean->part[k]);
    }
}

INLINE void sums_of(const struct norm *n, const float *dy, const float *x,
                    size_t positions, double *sums, double *products, bool relu)
{
    const struct row t = row_of(n->times), p = row_of(n->plus),
                     mean = row_of(n->mean);
    while (positions) {
        const size_t now = positions < SHORT ? positions : SHORT;
        struct row s = {0}, q = {0};
        for (size_t i = 0; i < now; i++, dy += BLOCK, x += BLOCK)
            add_products(&s, &q, dy, x, &t, &p, &mean, relu);
        add_rows(sums, &s, 1);
        add_rows(products, &q, 1);
        positions -= now;
    }
}

static void sums(const struct norm *n, const float *dy, const float *x,
                 size_t positions, double *to, double *products)
{
    if (n->relu)
        sums_of(n, dy, x, positions, to, products, true);
    else
        sums_of(n, dy, x, positions, to, products, false);
}

INLINE void backward_of(const struct norm *n, const float *dy, const float *x,
                        float *dx, size_t positions, bool relu, bool stream)
{
    const struct row t = row_of(n->times), p = row_of(n->plus),
                     a = row_of(n->of_dy), b = row_of(n->of_x),
                     c = row_of(n->one);
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES) {
            const reg v = load(x + i);
            put(dx + i,
                passed(dy + i, v, t.part[k], p.part[k], relu) * a.part[k]
                    + (v * b.part[k] + c.part[k]),
                stream);
        }
    finish(stream);
}

static void backward(const struct norm *n, const float *dy, const float *x,
                     float *dx, size_t positions)
{
    if (n->relu && n->stream)
        backward_of(n, dy, x, dx, positions, true, true);
    else if (n->relu)
        backward_of(n, dy, x, dx, positions, true, false);
    else if (n->stream)
        backward_of(n, dy, x, dx, positions, false, true);
    else
        backward_of(n, dy, x, dx, positions, false, false);
}

const struct norm_loops NAME(norm_, CONV_ISA) = {
    .moments = moments,
    .forward = forward,
    .sums = sums,
    .backward = backward,
};
