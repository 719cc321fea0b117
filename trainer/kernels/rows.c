/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register.
 *
 * Both loops keep a tile of sums in registers, and go through columns in panels
 * of which the few rows stay in the second cache. */
#include "kernels/rows.h"

#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/reg.h"

enum {
    WIDE = CONV_REGISTERS >= 32 ? 8 : 4, /* rows of a tile */
    HIGH = CONV_REGISTERS >= 32 ? 3 : 2, /* the other rows, or registers */
    PANEL = 4096,                        /* columns */
    TOGETHER = 32, /* rows that share what the first cache has */
};

/* --- dots -----------------------------------------------------------------
 */

INLINE float sum_of(reg v)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#else
    float sum = 0;
    for (int k = 0; k < LANES; k++)
        sum += v[k];
    return sum;
#endif
}

INLINE void dots_tile(const float *a, size_t a_next, const float *b,
                      size_t b_next, int columns, float *y, size_t y_next,
                      int na, int nb)
{
    reg sums[WIDE][HIGH];
    int c = 0;
#pragma GCC unroll 8
    for (int i = 0; i < na; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nb; j++)
            sums[i][j] = (reg){0};
    for (; c + LANES <= columns; c += LANES) {
        reg w[HIGH];
#pragma GCC unroll 4
        for (int j = 0; j < nb; j++)
            w[j] = load(b + (size_t)j * b_next + c);
#pragma GCC unroll 8
        for (int i = 0; i < na; i++) {
            const reg v = load(a + (size_t)i * a_next + c);
#pragma GCC unroll 4
            for (int j = 0; j < nb; j++)
                sums[i][j] += v * w[j];
        }
    }
    for (int i = 0; i < na; i++)
        for (int j = 0; j < nb; j++) {
            float sum = sum_of(sums[i][j]);
            for (int k = c; k < columns; k++)
                sum += a[(size_t)i * a_next + k] * b[(size_t)j * b_next + k];
            y[(size_t)i * y_next + j] += sum;
        }
}

static void dots(struct rows a, struct rows b, int columns, struct rows y)
{
    for (int c = 0; c < columns; c += PANEL) {
        const int n = least(columns - c, PANEL);
        for (int j = 0; j < b.count;) {
            const float *from = b.x + (size_t)j * b.next + c;
            const int nb = b.count - j < HIGH ? 1 : HIGH;
            for (int i = 0; i < a.count;) {
                const float *with = a.x + (size_t)i * a.next + c;
                float *to = y.x + (size_t)i * y.next + j;
                const bool wide = a.count - i >= WIDE;
                if (wide && nb == HIGH)
                    dots_tile(with, a.next, from, b.next, n, to, y.next, WIDE,
                              HIGH);
                else if (wide)
                    dots_tile(with, a.next, from, b.next, n, to, y.next, WIDE,
                              1);
                else if (nb == HIGH)
                    dots_tile(with, a.next, from, b.next, n, to, y.next, 1,
                              HIGH);
                else
                    dots_tile(with, a.next, from, b.next, n, to, y.next, 1, 1);
                i += wide ? WIDE : 1;
            }
            j += nb;
        }
    }
}

/* --- add_up ---------------------------------------------------------------
 */

/* nto rows, nv registers of columns, nfrom terms. */
INLINE void add_tile(float *to, size_t to_next, const float *from,
                     size_t from_next, int nfrom, const float *by,
                     size_t to_step, size_t from_step, int nto, int nv)
{
    reg sums[WIDE][HIGH];
#pragma GCC unroll 8
    for (int i = 0; i < nto; i++)
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            sums[i][k] = load(to + (size_t)i * to_next + k * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < nto; i++)
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            __builtin_prefetch(to + (size_t)i * to_next + (nv + k) * LANES, 1,
                               2);
    for (int j = 0; j < nfrom; j++, from += from_next, by += from_step) {
        reg v[HIGH];
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            v[k] = load(from + k * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < nto; i++) {
            const reg one = by[(size_t)i * to_step] - (reg){0};
#pragma GCC unroll 4
            for (int k = 0; k < nv; k++)
                sums[i][k] += one * v[k];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < nto; i++)
#pragma GCC unroll 4
        for (int k = 0; k < nv; k++)
            store(to + (size_t)i * to_next + k * LANES, sums[i][k]);
}

static void add_columns(struct rows to, struct rows from, int columns,
                        const float *by, size_t to_step, size_t from_step)
{
    for (int i = 0; i < to.count; i++)
        for (int j = 0; j < from.count; j++)
            for (int c = 0; c < columns; c++)
                to.x[(size_t)i * to.next + c] +=
                    by[(size_t)i * to_step + (size_t)j * from_step]
                    * from.x[(size_t)j * from.next + c];
}

/* Of so few rows that a tile's part of `from` stays in the first cache: copied,
 * as rows that are a power of two apart get in each other's way there. */
static void add_block(struct rows to, struct rows from, int columns,
                      const float *by, size_t to_step, size_t from_step)
{
    float near[TOGETHER * HIGH * LANES] __attribute__((aligned(64)));
    while (columns >= LANES) {
        const int nv = columns >= HIGH * LANES ? HIGH : 1;
        for (int j = 0; j < from.count; j++)
            for (int k = 0; k < nv; k++) {
                const float *at = from.x + (size_t)j * from.next + k * LANES;
                __builtin_prefetch(at + HIGH * LANES, 0, 2);
                store(near + (j * nv + k) * LANES, load(at));
            }
        for (int i = 0; i < to.count;) {
            float *at = to.x + (size_t)i * to.next;
            const float *factors = by + (size_t)i * to_step;
            const bool wide = to.count - i >= WIDE;
            const size_t next = (size_t)(nv * LANES);
            if (wide && nv == HIGH)
                add_tile(at, to.next, near, next, from.count, factors, to_step,
                         from_step, WIDE, HIGH);
            else if (wide)
                add_tile(at, to.next, near, next, from.count, factors, to_step,
                         from_step, WIDE, 1);
            else if (nv == HIGH)
                add_tile(at, to.next, near, next, from.count, factors, to_step,
                         from_step, 1, HIGH);
            else
                add_tile(at, to.next, near, next, from.count, factors, to_step,
                         from_step, 1, 1);
            i += wide ? WIDE : 1;
        }
        to.x += nv * LANES;
        from.x += nv * LANES;
        columns -= nv * LANES;
    }
    add_columns(to, from, columns, by, to_step, from_step);
}

static struct rows some(struct rows r, int first, int column)
{
    return (struct rows){r.x + (size_t)first * r.next + column,
                         least(r.count - first, TOGETHER), r.next};
}

static void add_up(struct rows to, struct rows from, int columns,
                   const float *by, size_t to_step, size_t from_step)
{
    for (int c = 0; c < columns; c += PANEL)
        for (int i = 0; i < to.count; i += TOGETHER)
            for (int j = 0; j < from.count; j += TOGETHER)
                add_block(some(to, i, c), some(from, j, c),
                          least(columns - c, PANEL),
                          by + (size_t)i * to_step + (size_t)j * from_step,
                          to_step, from_step);
}

const struct rows_loops NAME(rows_, CONV_ISA) = {
    .dots = dots,
    .add_up = add_up,
};
