/* SPDX-License-Identifier: MIT */
/* As conv_tile.c: CONV_LANES floats in a register.
 *
 * Squares go to a line a position, where the neighbours of 16 channels are a
 * load from a little to the left or right. Some positions go together, so that
 * lines stay in the first cache and no line is read right after it is written.
 */
#include "kernels/lrn.h"

#include <math.h>

#include "kernels/reg.h"

INLINE reg root(reg x)
{
    reg y;
    for (int k = 0; k < LANES; k++)
        y[k] = sqrtf(x[k]);
    return y;
}

/* s^-beta of which *inverse is 1 / s. */
INLINE reg lowered(reg s, float beta, bool usual, reg *inverse)
{
    reg y;
    *inverse = 1 / s;
    if (usual) {
        const reg r = root(*inverse);
        return r * root(r);
    }
    for (int k = 0; k < LANES; k++)
        y[k] = powf(s[k], -beta);
    return y;
}

INLINE size_t row(const struct lrn *n)
{
    return (size_t)(n->blocks * BLOCK + n->size);
}

/* What lies around float c of position p in lines. */
INLINE reg window(const struct lrn *n, const float *lines, int size, size_t c,
                  size_t p)
{
    const float *at = lines + p * row(n) + c;
    reg sum = load(at);
    for (int j = 1; j < size; j++)
        sum += load(at + j);
    return sum;
}

/* Where a tensor has part k of block b at position p. */
INLINE size_t place(const struct lrn *n, int b, int k, size_t p)
{
    return (size_t)b * n->next + p * BLOCK + (size_t)(k * LANES);
}

INLINE reg raised(const struct lrn *n, int size, size_t c, size_t p)
{
    return n->k + n->share * window(n, n->squares, size, c, p);
}

static void square(const struct lrn *n, const float *x, size_t positions)
{
    float *to = n->squares + n->size / 2;
    for (int b = 0; b < n->blocks; b++)
        for (size_t p = 0; p < positions; p++)
            for (int k = 0; k < PARTS; k++) {
                const reg v = load(x + place(n, b, k, p));
                store(to + p * row(n) + b * BLOCK + k * LANES, v * v);
            }
}

INLINE void forward_of(const struct lrn *n, const float *x, float *y,
                       size_t positions, int size, bool usual)
{
    square(n, x, positions);
    for (int b = 0; b < n->blocks; b++)
        for (size_t p = 0; p < positions; p++)
            for (int k = 0; k < PARTS; k++) {
                const size_t c = (size_t)(b * BLOCK + k * LANES);
                const size_t at = place(n, b, k, p);
                reg inverse;
                store(y + at, load(x + at)
                                  * lowered(raised(n, size, c, p), n->beta,
                                            usual, &inverse));
            }
}

INLINE void backward_of(const struct lrn *n, const float *x, const float *dy,
                        float *dx, size_t positions, int size, bool usual)
{
    const float slope = 2 * n->beta * n->share;
    float *to = n->slopes + n->size / 2;
    square(n, x, positions);
    for (int b = 0; b < n->blocks; b++)
        for (size_t p = 0; p < positions; p++)
            for (int k = 0; k < PARTS; k++) {
                const size_t c = (size_t)(b * BLOCK + k * LANES);
                const size_t at = place(n, b, k, p);
                reg inverse;
                const reg d =
                    load(dy + at)
                    * lowered(raised(n, size, c, p), n->beta, usual, &inverse);
                store(dx + at, d);
                store(to + p * row(n) + c, d * load(x + at) * inverse);
            }
    for (int b = 0; b < n->blocks; b++)
        for (size_t p = 0; p < positions; p++)
            for (int k = 0; k < PARTS; k++) {
                const size_t c = (size_t)(b * BLOCK + k * LANES);
                const size_t at = place(n, b, k, p);
                store(dx + at, load(dx + at)
                                   - slope * load(x + at)
                                         * window(n, n->slopes, size, c, p));
            }
}

static void forward(const struct lrn *n, const float *x, float *y,
                    size_t positions)
{
    if (n->beta == 0.75f && n->size == 5)
        forward_of(n, x, y, positions, 5, true);
    else
        forward_of(n, x, y, positions, n->size, n->beta == 0.75f);
}

static void backward(const struct lrn *n, const float *x, const float *dy,
                     float *dx, size_t positions)
{
    if (n->beta == 0.75f && n->size == 5)
        backward_of(n, x, dy, dx, positions, 5, true);
    else
        backward_of(n, x, dy, dx, positions, n->size, n->beta == 0.75f);
}

const struct lrn_loops NAME(lrn_, CONV_ISA) = {
    .forward = forward,
    .backward = backward,
};
