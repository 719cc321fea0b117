/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/norm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/reg.h"

enum { SHORT = 64 };

/* Without reading the line first, where that can be said. */
INLINE void put(float *x, reg v, bool stream)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    if (stream) {
        _mm512_stream_ps(x, (__m512)v);
        return;
    }
#endif
    (void)stream;
    store(x, v);
}

/* What was put so is there for other threads. */
INLINE void finish(bool stream)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    if (stream)
        _mm_sfence();
#endif
    (void)stream;
}

static void add_to(double *sums, reg part)
{
    for (int k = 0; k < LANES; k++)
        sums[k] += (double)part[k];
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

INLINE void forward_of(const struct norm *n, const float *x, const float *more,
                       float *y, size_t positions, bool relu, bool stream)
{
    for (int k = 0; k < PARTS; k++) {
        const reg t = load(n->times + k * LANES), p = load(n->plus + k * LANES),
                  zero = {0};
        for (size_t i = (size_t)k * LANES; i < positions * BLOCK; i += BLOCK) {
            reg v = load(x + i) * t + p;
            if (more)
                v += load(more + i);
            put(y + i, relu ? choose(v > zero, v, zero) : v, stream);
        }
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

INLINE void sums_of(const struct norm *n, const float *dy, const float *x,
                    size_t positions, double *sums, double *products, bool relu)
{
    while (positions) {
        const size_t now = positions < SHORT ? positions : SHORT;
        for (int k = 0; k < PARTS; k++) {
            const reg t = load(n->times + k * LANES),
                      p = load(n->plus + k * LANES),
                      mean = load(n->mean + k * LANES);
            reg s = {0}, q = {0};
            for (size_t i = (size_t)k * LANES; i < now * BLOCK; i += BLOCK) {
                const reg v = load(x + i), d = passed(dy + i, v, t, p, relu);
                s += d;
                q += d * (v - mean);
            }
            add_to(sums + k * LANES, s);
            add_to(products + k * LANES, q);
        }
        dy += now * BLOCK;
        x += now * BLOCK;
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
    for (int k = 0; k < PARTS; k++) {
        const reg t = load(n->times + k * LANES), p = load(n->plus + k * LANES),
                  a = load(n->of_dy + k * LANES), b = load(n->of_x + k * LANES),
                  c = load(n->one + k * LANES);
        for (size_t i = (size_t)k * LANES; i < positions * BLOCK; i += BLOCK) {
            const reg v = load(x + i);
            put(dx + i, passed(dy + i, v, t, p, relu) * a + (v * b + c),
                stream);
        }
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
