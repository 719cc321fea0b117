/* SPDX-License-Identifier: MIT */
/* The transforms of Winograd's F(4x4, 3x3) and F(2x2, 5x5) for one instruction
 * set, 16 channels at a time (Lavin and Gray, Fast Algorithms for Convolutional
 * Neural Networks, CVPR 2016, section 4):
 *
 *     y = A' ((G g G') . (B' d B)) A
 *
 * with ' for the transpose and . for products element by element. The gradient
 * of the weights is G' ((B' d B) . (A dy A')) G. Both have the points 0, 1, -1,
 * 2, -2 and infinity, thus the same B, while A and G have more or fewer powers
 * of them.
 *
 * A vector goes from memory through one half of a transform, waits for the
 * other half beside 35 others, and goes to memory: 72 stores in all, which take
 * longer than the arithmetic.
 */
#include "kernels/conv_tile.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define INLINE     static inline __attribute__((always_inline))
#define UNROLL     _Pragma("GCC unroll 6")

enum { WIDE = CONV_WIDE };

typedef float block __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));

INLINE block load(const float *x)
{
    return *(const loose *)x;
}

INLINE void store(float *x, block v)
{
    *(loose *)x = v;
}

/* --- one row or column ----------------------------------------------------
 */

INLINE void times_b(const block *d, block *v)
{
    const block a = d[4] - 4.f * d[2], b = d[3] - 4.f * d[1];
    const block c = d[4] - d[2], e = d[3] - d[1];
    v[0] = 4.f * d[0] + (d[4] - 5.f * d[2]);
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c + 2.f * e;
    v[4] = c - 2.f * e;
    v[5] = 4.f * d[1] + (d[5] - 5.f * d[3]);
}

INLINE void times_b_back(const block *v, block *d)
{
    const block a = v[1] + v[2], b = v[1] - v[2];
    const block c = v[3] + v[4], e = v[3] - v[4];
    d[0] = 4.f * v[0];
    d[1] = 4.f * (v[5] - b) - 2.f * e;
    d[2] = -5.f * v[0] - 4.f * a - c;
    d[3] = b + 2.f * e - 5.f * v[5];
    d[4] = v[0] + a + c;
    d[5] = v[5];
}

INLINE void times_a(const block *m, block *y, const int side)
{
    const block a = m[1] + m[2], b = m[1] - m[2];
    const block c = m[3] + m[4], d = m[3] - m[4];
    y[0] = m[0] + a + c;
    y[1] = b + 2.f * d;
    if (side == 4) {
        y[2] = a + 4.f * c;
        y[3] = b + 8.f * d;
    }
    y[side - 1] += m[5];
}

INLINE void times_a_back(const block *y, block *m, const int side)
{
    block a = y[0], b = y[1], c = y[0], d = 2.f * y[1];
    if (side == 4) {
        a += y[2];
        b += y[3];
        c += 4.f * y[2];
        d += 8.f * y[3];
    }
    m[0] = y[0];
    m[1] = a + b;
    m[2] = a - b;
    m[3] = c + d;
    m[4] = c - d;
    m[5] = y[side - 1];
}

INLINE void times_g(const block *g, block *u, const int side)
{
    block a = g[0] + g[2], b = g[1];
    block c = g[0] + 4.f * g[2], d = 2.f * g[1];
    if (side == 2) {
        a += g[4];
        b += g[3];
        c += 16.f * g[4];
        d += 8.f * g[3];
    }
    u[0] = g[0] * .25f;
    u[1] = (a + b) * (-1.f / 6);
    u[2] = (a - b) * (-1.f / 6);
    u[3] = (c + d) * (1.f / 24);
    u[4] = (c - d) * (1.f / 24);
    u[5] = g[WIDE - side];
}

INLINE void times_g_back(const block *u, block *g, const int side)
{
    const block a = (u[1] + u[2]) * (-1.f / 6), b = (u[1] - u[2]) * (-1.f / 6);
    const block c = (u[3] + u[4]) * (1.f / 24), d = (u[3] - u[4]) * (1.f / 24);
    g[0] = u[0] * .25f + a + c;
    g[1] = b + 2.f * d;
    g[2] = a + 4.f * c;
    if (side == 2) {
        g[3] = b + 8.f * d;
        g[4] = a + 16.f * c;
    }
    g[WIDE - side] += u[5];
}

/* --- all of them ----------------------------------------------------------
 */

/* Those of a row or column of `size` that lie inside; zeros elsewhere. */
INLINE void load_inside(const float *x, size_t next, const int size, int from,
                        int to, block *d)
{
    for (int i = 0; i < size; i++)
        d[i] = i >= from && i < to ? load(x + (size_t)i * next) : (block){0};
}

INLINE void load_all(const float *x, size_t next, const int size, block *d)
{
    UNROLL
    for (int i = 0; i < size; i++)
        d[i] = load(x + (size_t)i * next);
}

INLINE void gather(block (*t)[WIDE], int i, const int size, block *d)
{
    UNROLL
    for (int j = 0; j < size; j++)
        d[j] = t[j][i];
}

INLINE void store_all(const block *d, const int size, float *x, size_t next)
{
    UNROLL
    for (int i = 0; i < size; i++)
        store(x + (size_t)i * next, d[i]);
}

/* The second half of what goes to 36 places: each of 6 rows. */
INLINE void to_places(block (*t)[WIDE], float *v, size_t next,
                      void (*times)(const block *, block *, int), int side,
                      int size)
{
    UNROLL
    for (int i = 0; i < WIDE; i++) {
        block d[WIDE], to[WIDE];
        gather(t, i, size, d);
        times(d, to, side);
        store_all(to, WIDE, v + (size_t)(WIDE * i) * next, next);
    }
}

INLINE void b_with_side(const block *d, block *v, int side)
{
    (void)side;
    times_b(d, v);
}

static void input(float *x, size_t row, const struct conv_inside *in, float *v,
                  size_t next)
{
    block t[WIDE][WIDE], d[WIDE];
    if (!in) {
        UNROLL
        for (int j = 0; j < WIDE; j++) {
            load_all(x + j * CONV_BLOCK, row, WIDE, d);
            times_b(d, t[j]);
        }
    } else {
        for (int j = 0; j < WIDE; j++) {
            const bool is = j >= in->left && j < in->right;
            load_inside(x + j * CONV_BLOCK, row, WIDE, is ? in->top : WIDE,
                        in->bottom, d);
            times_b(d, t[j]);
        }
    }
    to_places(t, v, next, b_with_side, 0, WIDE);
}

static void input_back(float *x, size_t row, const struct conv_inside *in,
                       float *v, size_t next)
{
    const struct conv_inside all = {0, WIDE, 0, WIDE};
    block t[WIDE][WIDE], d[WIDE], to[WIDE];
    if (!in)
        in = &all;
    UNROLL
    for (int j = 0; j < WIDE; j++) {
        load_all(v + (size_t)j * next, WIDE * next, WIDE, d);
        times_b_back(d, t[j]);
    }
    for (int i = in->top; i < in->bottom; i++) {
        float *line = x + (size_t)i * row;
        gather(t, i, WIDE, d);
        times_b_back(d, to);
        for (int j = in->left; j < in->right; j++)
            store(line + j * CONV_BLOCK, load(line + j * CONV_BLOCK) + to[j]);
    }
}

INLINE void output(const float *m, size_t next, const float *bias, float *y,
                   size_t row, int rows, int columns, const int side)
{
    const block more = load(bias);
    block t[WIDE][WIDE], d[WIDE], to[WIDE];
    UNROLL
    for (int j = 0; j < WIDE; j++) {
        load_all(m + (size_t)j * next, WIDE * next, WIDE, d);
        times_a(d, t[j], side);
    }
    UNROLL
    for (int i = 0; i < side; i++) {
        if (i == rows)
            break;
        gather(t, i, WIDE, d);
        times_a(d, to, side);
        UNROLL
        for (int j = 0; j < side; j++)
            if (j < columns)
                store(y + (size_t)i * row + j * CONV_BLOCK, to[j] + more);
    }
}

INLINE void output_back(const float *dy, size_t row,
                        const struct conv_inside *in, float *v, size_t next,
                        const int side)
{
    block t[WIDE][WIDE], d[WIDE];
    UNROLL
    for (int j = 0; j < side; j++) {
        if (!in)
            load_all(dy + j * CONV_BLOCK, row, side, d);
        else
            load_inside(dy + j * CONV_BLOCK, row, side,
                        j < in->right ? 0 : side, in->bottom, d);
        times_a_back(d, t[j], side);
    }
    to_places(t, v, next, times_a_back, side, side);
}

INLINE void weights(const float *g, const size_t *at, float *u, size_t next,
                    const int side)
{
    const int size = WIDE + 1 - side;
    block t[WIDE][WIDE], d[WIDE];
    for (int j = 0; j < size; j++) {
        for (int i = 0; i < size; i++)
            d[i] = load(g + at[size * i + j]);
        times_g(d, t[j], side);
    }
    to_places(t, u, next, times_g, side, size);
}

INLINE void weights_back(const float *u, size_t next, float *g,
                         const size_t *at, const int side)
{
    const int size = WIDE + 1 - side;
    block t[WIDE][WIDE], d[WIDE], to[WIDE];
    for (int j = 0; j < WIDE; j++) {
        load_all(u + (size_t)j * next, WIDE * next, WIDE, d);
        times_g_back(d, t[j], side);
    }
    for (int i = 0; i < size; i++) {
        gather(t, i, WIDE, d);
        times_g_back(d, to, side);
        for (int j = 0; j < size; j++)
            store(g + at[size * i + j], to[j]);
    }
}

#define ALL(side)                                                              \
    static void output_##side(const float *m, size_t next, const float *bias,  \
                              float *y, size_t row, int rows, int columns)     \
    {                                                                          \
        output(m, next, bias, y, row, rows, columns, side);                    \
    }                                                                          \
    static void output_back_##side(const float *dy, size_t row,                \
                                   const struct conv_inside *in, float *v,     \
                                   size_t next)                                \
    {                                                                          \
        output_back(dy, row, in, v, next, side);                               \
    }                                                                          \
    static void weights_##side(const float *g, const size_t *at, float *u,     \
                               size_t next)                                    \
    {                                                                          \
        weights(g, at, u, next, side);                                         \
    }                                                                          \
    static void weights_back_##side(const float *u, size_t next, float *g,     \
                                    const size_t *at)                          \
    {                                                                          \
        weights_back(u, next, g, at, side);                                    \
    }
#define ROW(side)                                                              \
    [side] = {output_##side, output_back_##side, weights_##side,               \
              weights_back_##side}

ALL(2)
ALL(4)

const struct conv_transforms NAME(conv_transforms_, CONV_ISA) = {
    .input = input,
    .input_back = input_back,
    .of = {ROW(2), ROW(4)},
};
