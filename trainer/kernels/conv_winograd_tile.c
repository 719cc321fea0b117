/* SPDX-License-Identifier: MIT */
/* The transforms of Winograd's F(4x4, 3x3) for one instruction set, 16 channels
 * at a time (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks,
 * CVPR 2016, section 4):
 *
 *     y = A' ((G g G') . (B' d B)) A
 *
 * with ' for the transpose and . for products element by element. The gradient
 * of the weights is G' ((B' d B) . (A dy A')) G.
 */
#include "kernels/conv_tile.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define INLINE     static inline __attribute__((always_inline))

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

/* Each of these reads one row or column and writes one; t tells the distance
 * between its elements. */

INLINE void times_b(const block *d, int t, block *v)
{
    const block a = d[4 * t] - 4.f * d[2 * t], b = d[3 * t] - 4.f * d[t];
    const block c = d[4 * t] - d[2 * t], e = 2.f * (d[3 * t] - d[t]);
    const block last = 4.f * d[t] - 5.f * d[3 * t] + d[5 * t];
    v[0] = 4.f * d[0] - 5.f * d[2 * t] + d[4 * t];
    v[t] = a + b;
    v[2 * t] = a - b;
    v[3 * t] = c + e;
    v[4 * t] = c - e;
    v[5 * t] = last;
}

INLINE void times_a(const block *m, int t, block *y)
{
    const block a = m[t] + m[2 * t], b = m[t] - m[2 * t];
    const block c = m[3 * t] + m[4 * t], d = m[3 * t] - m[4 * t];
    const block last = m[5 * t];
    y[0] = m[0] + a + c;
    y[t] = b + 2.f * d;
    y[2 * t] = a + 4.f * c;
    y[3 * t] = b + 8.f * d + last;
}

INLINE void times_a_back(const block *y, int t, block *m)
{
    const block a = y[0] + y[2 * t], b = y[t] + y[3 * t];
    const block c = y[0] + 4.f * y[2 * t], d = 2.f * y[t] + 8.f * y[3 * t];
    const block last = y[3 * t];
    m[5 * t] = last;
    m[t] = a + b;
    m[2 * t] = a - b;
    m[3 * t] = c + d;
    m[4 * t] = c - d;
    m[0] = y[0];
}

INLINE void times_g(const block *g, int t, block *u)
{
    const block a = (g[0] + g[2 * t]) * (-1.f / 6), b = g[t] * (1.f / 6);
    const block c = g[0] * (1.f / 24) + g[2 * t] * (1.f / 6);
    const block d = g[t] * (1.f / 12), last = g[2 * t];
    u[0] = g[0] * .25f;
    u[t] = a - b;
    u[2 * t] = a + b;
    u[3 * t] = c + d;
    u[4 * t] = c - d;
    u[5 * t] = last;
}

INLINE void times_g_back(const block *u, int t, block *g)
{
    const block a = (u[t] + u[2 * t]) * (1.f / 6);
    const block b = u[3 * t] + u[4 * t];
    const block c =
        (u[2 * t] - u[t]) * (1.f / 6) + (u[3 * t] - u[4 * t]) * (1.f / 12);
    const block last = u[5 * t];
    g[0] = u[0] * .25f - a + b * (1.f / 24);
    g[2 * t] = b * (1.f / 6) - a + last;
    g[t] = c;
}

/* Elements lie in rows of 6. */
static void input(const float *x, size_t row, float *v, size_t next)
{
    block t[36];
    for (int i = 0; i < 36; i++)
        t[i] = load(x + (size_t)(i / 6) * row + i % 6 * CONV_BLOCK);
    for (int i = 0; i < 6; i++)
        times_b(t + i, 6, t + i);
    for (int i = 0; i < 6; i++)
        times_b(t + 6 * i, 1, t + 6 * i);
    for (int i = 0; i < 36; i++)
        store(v + (size_t)i * next, t[i]);
}

static void output(const float *m, size_t next, const float *bias, float *y,
                   size_t row, int rows, int columns)
{
    const block more = bias ? load(bias) : (block){0};
    block t[36];
    for (int i = 0; i < 36; i++)
        t[i] = load(m + (size_t)i * next);
    for (int i = 0; i < 6; i++)
        times_a(t + i, 6, t + i);
    for (int i = 0; i < rows; i++) {
        times_a(t + 6 * i, 1, t + 6 * i);
        for (int j = 0; j < columns; j++)
            store(y + (size_t)i * row + j * CONV_BLOCK, t[6 * i + j] + more);
    }
}

static void weights(const float *g, const size_t *at, float *u, size_t next)
{
    block t[36];
    for (int i = 0; i < 9; i++)
        t[6 * (i / 3) + i % 3] = load(g + at[i]);
    for (int i = 0; i < 3; i++)
        times_g(t + i, 6, t + i);
    for (int i = 0; i < 6; i++)
        times_g(t + 6 * i, 1, t + 6 * i);
    for (int i = 0; i < 36; i++)
        store(u + (size_t)i * next, t[i]);
}

static void output_back(const float *dy, size_t row, float *v, size_t next)
{
    block t[36];
    for (int i = 0; i < 16; i++)
        t[6 * (i / 4) + i % 4] =
            load(dy + (size_t)(i / 4) * row + i % 4 * CONV_BLOCK);
    for (int i = 0; i < 4; i++)
        times_a_back(t + i, 6, t + i);
    for (int i = 0; i < 6; i++)
        times_a_back(t + 6 * i, 1, t + 6 * i);
    for (int i = 0; i < 36; i++)
        store(v + (size_t)i * next, t[i]);
}

static void weights_back(const float *u, size_t next, float *g,
                         const size_t *at)
{
    block t[36];
    for (int i = 0; i < 36; i++)
        t[i] = load(u + (size_t)i * next);
    for (int i = 0; i < 6; i++)
        times_g_back(t + i, 6, t + i);
    for (int i = 0; i < 3; i++)
        times_g_back(t + 6 * i, 1, t + 6 * i);
    for (int i = 0; i < 9; i++)
        store(g + at[i], t[6 * (i / 3) + i % 3]);
}

const struct conv_transforms NAME(conv_transforms_, CONV_ISA) = {
    .input = input,
    .output = output,
    .weights = weights,
    .output_back = output_back,
    .weights_back = weights_back,
};
