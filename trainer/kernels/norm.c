/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register. */
#include "kernels/norm.h"

#include "kernels/reg.h"

#ifdef CONV_BF16
#define LOOPS norm_bf16_
#else
#define LOOPS norm_
#endif

enum { SHORT = 64, AHEAD = 2048 }; /* positions; bytes */

/* What is read so much later is asked for, whose lines processors do not all
 * foresee. */
INLINE void ask(const float *x, size_t i, bool half)
{
    if (i % (half ? 32 : 16) == 0)
        __builtin_prefetch((const char *)x + (i << (half ? 1 : 2)) + AHEAD);
}

/* Number i and those behind it. To stream: without reading the line first,
 * where that can be said and a line is written at once. */
#if defined(__AVX512F__) && CONV_LANES == 16
enum { STREAMS = true };
INLINE void stream_from(float *x, size_t i, reg v, bool half)
{
    if (half)
        _mm256_stream_si256((__m256i *)((uint16_t *)x + i),
                            (__m256i)rounded(v));
    else
        _mm512_stream_ps(x + i, (__m512)v);
}
#elif defined(__AVX__) && CONV_LANES == 8
enum { STREAMS = true };
INLINE void stream_from(float *x, size_t i, reg v, bool half)
{
    if (half)
        _mm_stream_si128((__m128i *)((uint16_t *)x + i), (__m128i)rounded(v));
    else
        _mm256_stream_ps(x + i, (__m256)v);
}
#else
enum { STREAMS = false };
INLINE void stream_from(float *x, size_t i, reg v, bool half)
{
    store_from(x, (ptrdiff_t)i, v, half);
}
#endif

INLINE void put_from(float *x, size_t i, reg v, bool half, bool stream)
{
    if (stream)
        stream_from(x, i, v, half);
    else
        store_from(x, (ptrdiff_t)i, v, half);
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

INLINE void add_moments(struct row *s, struct row *q, const float *x, size_t i,
                        const struct row *shift, bool half)
{
    /* Of bf16 twice as far, as less time goes by from line to line. */
    ask(x, half ? i + AHEAD / 2 : i, half);
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++, i += LANES) {
        const reg d = load_from(x, (ptrdiff_t)i, half) - shift->part[k];
        s->part[k] += d;
        q->part[k] += d * d;
    }
}

PER_CASE void moments_of(const float *x, const float *shift, size_t positions,
                         double *sums, double *squares, bool half)
{
    const struct row off = row_of(shift);
    for (size_t done = 0, end; done < positions; done = end) {
        struct row s[ROWS_AT_ONCE] = {0}, q[ROWS_AT_ONCE] = {0};
        size_t i = done;
        end = positions - done < SHORT ? positions : done + SHORT;
        for (; i + ROWS_AT_ONCE <= end; i += ROWS_AT_ONCE)
#pragma GCC unroll 4
            for (size_t j = 0; j < ROWS_AT_ONCE; j++)
                add_moments(&s[j], &q[j], x, (i + j) * BLOCK, &off, half);
        for (; i < end; i++)
            add_moments(&s[0], &q[0], x, i * BLOCK, &off, half);
        add_rows(sums, s, ROWS_AT_ONCE);
        add_rows(squares, q, ROWS_AT_ONCE);
    }
}

static void moments(const struct norm *n, const float *x, size_t positions,
                    double *sums, double *squares)
{
    if (n->half_x)
        moments_of(x, n->mean, positions, sums, squares, true);
    else
        moments_of(x, n->mean, positions, sums, squares, false);
}

/* f(..., what) with what the norm says, known when it is compiled; past:
 * whether it makes a difference that something is streamed. */
struct ways {
    bool relu, half_x, half_y, stream;
};

#define BY_STREAM(n, past, f, relu, x, y, ...)                                 \
    do {                                                                       \
        if ((past) && (n)->stream)                                             \
            f(__VA_ARGS__, (struct ways){relu, x, y, true});                   \
        else                                                                   \
            f(__VA_ARGS__, (struct ways){relu, x, y, false});                  \
    } while (0)
#define BY_HALVES(n, past, f, relu, ...)                                       \
    do {                                                                       \
        if ((n)->half_x && (n)->half_y)                                        \
            BY_STREAM(n, past, f, relu, true, true, __VA_ARGS__);              \
        else if ((n)->half_x)                                                  \
            BY_STREAM(n, past, f, relu, true, false, __VA_ARGS__);             \
        else if ((n)->half_y)                                                  \
            BY_STREAM(n, past, f, relu, false, true, __VA_ARGS__);             \
        else                                                                   \
            BY_STREAM(n, past, f, relu, false, false, __VA_ARGS__);            \
    } while (0)
#define BY_ALL(n, past, f, ...)                                                \
    do {                                                                       \
        if ((n)->relu)                                                         \
            BY_HALVES(n, past, f, true, __VA_ARGS__);                          \
        else                                                                   \
            BY_HALVES(n, past, f, false, __VA_ARGS__);                         \
    } while (0)

PER_CASE void forward_of(const struct norm *n, const float *x,
                         const float *more, float *y, size_t positions,
                         struct ways w)
{
    const struct row t = row_of(n->times), p = row_of(n->plus);
    const reg zero = {0};
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES) {
            ask(x, i, w.half_x);
            if (more)
                ask(more, i, w.half_y);
            reg v =
                load_from(x, (ptrdiff_t)i, w.half_x) * t.part[k] + p.part[k];
            if (more)
                v += load_from(more, (ptrdiff_t)i, w.half_y);
            put_from(y, i, w.relu ? choose(v > zero, v, zero) : v, w.half_y,
                     w.stream);
        }
    finish(w.stream);
}

static void forward(const struct norm *n, const float *x, const float *more,
                    float *y, size_t positions)
{
    if (more)
        BY_ALL(n, STREAMS, forward_of, n, x, more, y, positions);
    else
        BY_ALL(n, STREAMS, forward_of, n, x, NULL, y, positions);
}

/* dy where the relu passes it. */
INLINE reg passed(reg d, reg x, reg t, reg p, bool relu)
{
    const reg zero = {0};
    return relu ? choose(x * t + p > zero, d, zero) : d;
}

INLINE void add_products(struct row *s, struct row *q, const float *dy,
                         const float *x, size_t i, const struct row *t,
                         const struct row *p, const struct row *mean,
                         struct ways w)
{
    ask(dy, i, w.half_y);
    ask(x, i, w.half_x);
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++, i += LANES) {
        const reg v = load_from(x, (ptrdiff_t)i, w.half_x);
        const reg d = passed(load_from(dy, (ptrdiff_t)i, w.half_y), v,
                             t->part[k], p->part[k], w.relu);
        s->part[k] += d;
        q->part[k] += d * (v - mean->part[k]);
    }
}

PER_CASE void sums_of(const struct norm *n, const float *dy, const float *x,
                      size_t positions, double *sums, double *products,
                      struct ways w)
{
    const struct row t = row_of(n->times), p = row_of(n->plus),
                     mean = row_of(n->mean);
    for (size_t i = 0, end; i < positions;) {
        struct row s = {0}, q = {0};
        end = positions - i < SHORT ? positions : i + SHORT;
        for (; i < end; i++)
            add_products(&s, &q, dy, x, i * BLOCK, &t, &p, &mean, w);
        add_rows(sums, &s, 1);
        add_rows(products, &q, 1);
    }
}

static void sums(const struct norm *n, const float *dy, const float *x,
                 size_t positions, double *to, double *products)
{
    BY_ALL(n, false, sums_of, n, dy, x, positions, to, products);
}

PER_CASE void backward_of(const struct norm *n, const float *dy, const float *x,
                          float *dx, size_t positions, struct ways w)
{
    const struct row t = row_of(n->times), p = row_of(n->plus),
                     a = row_of(n->of_dy), b = row_of(n->of_x),
                     c = row_of(n->one);
    for (size_t i = 0; i < positions * BLOCK;)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; k++, i += LANES) {
            ask(dy, i, w.half_y);
            ask(x, i, w.half_x);
            const reg v = load_from(x, (ptrdiff_t)i, w.half_x);
            const reg d = passed(load_from(dy, (ptrdiff_t)i, w.half_y), v,
                                 t.part[k], p.part[k], w.relu);
            put_from(dx, i, d * a.part[k] + (v * b.part[k] + c.part[k]),
                     w.half_x, w.stream);
        }
    finish(w.stream);
}

static void backward(const struct norm *n, const float *dy, const float *x,
                     float *dx, size_t positions)
{
    BY_ALL(n, STREAMS, backward_of, n, dy, x, dx, positions);
}

const struct norm_loops NAME(LOOPS, CONV_ISA) = {
    .moments = moments,
    .forward = forward,
    .sums = sums,
    .backward = backward,
};
