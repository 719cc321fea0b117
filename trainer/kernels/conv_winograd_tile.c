/* SPDX-License-Identifier: MIT */
/* The transforms of Winograd's F(4x4, 3x3) or F(4x4, 5x5), whose tiles are
 * WINOGRAD_WIDE = 6 or 8 wide, or 2x2 outputs of 3x3 with strides of 2, 5 wide,
 * for one instruction set, a register of channels at a time, as gcc keeps wider
 * vectors in memory (Lavin and Gray, Fast Algorithms for Convolutional Neural
 * Networks, CVPR 2016, section 4):
 *
 *     y = A' ((G g G') . (B' d B)) A
 *
 * with ' for the transpose and . for products element by element. The gradient
 * of the weights is G' ((B' d B) . (A dy A')) G. The products of one row or
 * column with A, B and G are in conv_winograd_line.h and _phases.h.
 *
 * A vector goes from memory through one half of a transform, waits for the
 * other half beside 24 to 63 others, and goes to memory: twice as many stores,
 * which take longer than the arithmetic.
 */
#if WINOGRAD_WIDE == 5
#include "kernels/conv_winograd_phases.h"
enum { SIDE = 2, KERNEL = 3 };
#else
#include "kernels/conv_winograd_line.h"
enum { SIDE = 4, KERNEL = WINOGRAD_WIDE + 1 - SIDE };
#endif

#include "kernels/conv_tile.h"

enum { WIDE = WINOGRAD_WIDE };

static const unsigned has[WINOGRAD_SIDE + 1] = HAS;

INLINE bool in(unsigned places, int i)
{
    return places >> i & 1;
}

/* Those of a row or column of `size` that lie inside; zeros elsewhere. */
INLINE void load_inside(const float *x, size_t next, const int size, int from,
                        int to, reg *d)
{
    for (int i = 0; i < size; i++)
        d[i] = i >= from && i < to ? load(x + (size_t)i * next) : (reg){0};
}

INLINE void load_all(const float *x, size_t next, const int size, reg *d)
{
    UNROLL(8)
    for (int i = 0; i < size; i++)
        d[i] = load(x + (size_t)i * next);
}

/* Of places those which are had, and zeros. */
INLINE void load_places(const float *m, size_t next, unsigned places, reg *d)
{
    UNROLL(8)
    for (int i = 0; i < WIDE; i++)
        d[i] = in(places, i) ? load(m + (size_t)i * next) : (reg){0};
}

INLINE void gather(reg (*t)[WIDE], int i, const int size, reg *d)
{
    UNROLL(8)
    for (int j = 0; j < size; j++)
        d[j] = t[j][i];
}

/* The second half of what goes to places: each row of them that is had. */
PER_CASE void to_places(reg (*t)[WIDE], float *v, size_t next,
                        void (*times)(const reg *, reg *, int, int),
                        const int size, unsigned places, int rows, int columns)
{
    UNROLL(8)
    for (int i = 0; i < WIDE; i++) {
        if (!in(has[rows], i))
            continue;
        reg d[WIDE], to[WIDE];
        gather(t, i, size, d);
        times(d, to, WIDE, columns);
        UNROLL(8)
        for (int j = 0; j < WIDE; j++)
            if (in(places, j))
                store(v + (size_t)(WIDE * i + j) * next, to[j]);
    }
}

INLINE void input_part(float *x, size_t row, const struct conv_edge *edge,
                       float *v, size_t next)
{
    reg t[WIDE][WIDE], d[WIDE];
    if (!edge) {
        UNROLL(8)
        for (int j = 0; j < WIDE; j++) {
            load_all(x + j * CONV_BLOCK, row, WIDE, d);
            times_b(d, t[j], WIDE, SIDE);
        }
        to_places(t, v, next, times_b, WIDE, has[SIDE], SIDE, SIDE);
        return;
    }
    for (int j = 0; j < WIDE; j++) {
        const bool is = j >= edge->left && j < edge->right;
        load_inside(x + j * CONV_BLOCK, row, WIDE, is ? edge->top : WIDE,
                    edge->bottom, d);
        times_b(d, t[j], WIDE, edge->rows);
    }
    to_places(t, v, next, times_b, WIDE, has[edge->columns], edge->rows,
              edge->columns);
}

INLINE void input_back_part(float *x, size_t row, const struct conv_edge *edge,
                            float *v, size_t next)
{
    const struct conv_edge all = {0, WIDE, 0, WIDE, SIDE, SIDE};
    reg t[WIDE][WIDE], d[WIDE], to[WIDE];
    if (!edge)
        edge = &all;
    UNROLL(8)
    for (int j = 0; j < WIDE; j++) {
        load_places(v + (size_t)j * next, WIDE * next,
                    in(has[edge->columns], j) ? has[edge->rows] : 0, d);
        times_b_back(d, t[j], WIDE, edge->rows);
    }
    for (int i = edge->top; i < edge->bottom; i++) {
        float *line = x + (size_t)i * row;
        gather(t, i, WIDE, d);
        times_b_back(d, to, WIDE, edge->columns);
        for (int j = edge->left; j < edge->right; j++)
            store(line + j * CONV_BLOCK, load(line + j * CONV_BLOCK) + to[j]);
    }
}

/* bias NULL: to what is there. */
PER_CASE void output_to(const float *m, size_t next, const float *bias,
                        float *y, size_t row, int rows, int columns,
                        const bool relu, const float *gate)
{
    const reg more = bias ? load(bias) : (reg){0};
    reg t[WIDE][WIDE], d[WIDE], to[WIDE];
    UNROLL(8)
    for (int j = 0; j < WIDE; j++) {
        load_places(m + (size_t)j * next, WIDE * next,
                    in(has[columns], j) ? has[rows] : 0, d);
        times_a(d, t[j], WIDE, rows);
    }
    UNROLL(8)
    for (int i = 0; i < SIDE; i++) {
        if (i == rows)
            break;
        gather(t, i, WIDE, d);
        times_a(d, to, WIDE, columns);
        UNROLL(8)
        for (int j = 0; j < SIDE; j++) {
            const size_t at = (size_t)i * row + (size_t)(j * CONV_BLOCK);
            if (j >= columns)
                continue;
            reg v = to[j] + (bias ? more : load(y + at));
            if (relu)
                v = where_above(v, v);
            store(y + at, gate ? where_above(load(gate + at), v) : v);
        }
    }
}

INLINE void output_part(const float *m, size_t next, const float *bias,
                        float *y, size_t row, int rows, int columns,
                        const bool relu, const float *gate)
{
    if (rows < SIDE || columns < SIDE)
        output_to(m, next, bias, y, row, rows, columns, relu, gate);
    else if (relu)
        output_to(m, next, bias, y, row, SIDE, SIDE, true, NULL);
    else if (gate)
        output_to(m, next, bias, y, row, SIDE, SIDE, false, gate);
    else if (bias)
        output_to(m, next, bias, y, row, SIDE, SIDE, false, NULL);
    else
        output_to(m, next, NULL, y, row, SIDE, SIDE, false, NULL);
}

INLINE void output_back_part(const float *dy, size_t row, int rows, int columns,
                             float *v, size_t next)
{
    reg t[WIDE][WIDE], d[WIDE];
    if (rows == SIDE && columns == SIDE) {
        UNROLL(8)
        for (int j = 0; j < SIDE; j++) {
            load_all(dy + j * CONV_BLOCK, row, SIDE, d);
            times_a_back(d, t[j], WIDE, SIDE);
        }
        to_places(t, v, next, times_a_back, SIDE, has[SIDE], SIDE, SIDE);
        return;
    }
    for (int j = 0; j < SIDE; j++) {
        load_inside(dy + j * CONV_BLOCK, row, SIDE, j < columns ? 0 : SIDE,
                    rows, d);
        times_a_back(d, t[j], WIDE, rows);
    }
    to_places(t, v, next, times_a_back, SIDE, has[columns], rows, columns);
}

/* Of a kernel, which has all places. */
INLINE void kernel_places(const reg *g, reg *u, const int wide, int outputs)
{
    (void)outputs;
    times_g(g, u, wide);
}

INLINE void weights_part(const float *g, const size_t *at, float *u,
                         size_t next)
{
    reg t[WIDE][WIDE], d[WIDE];
    for (int j = 0; j < KERNEL; j++) {
        for (int i = 0; i < KERNEL; i++)
            d[i] = load(g + at[KERNEL * i + j]);
        times_g(d, t[j], WIDE);
    }
    to_places(t, u, next, kernel_places, KERNEL, has[SIDE], SIDE, SIDE);
}

INLINE void weights_back_part(const float *u, size_t next, float *g,
                              const size_t *at)
{
    reg t[WIDE][WIDE], d[WIDE], to[WIDE];
    for (int j = 0; j < WIDE; j++) {
        load_all(u + (size_t)j * next, WIDE * next, WIDE, d);
        times_g_back(d, t[j], WIDE);
    }
    for (int i = 0; i < KERNEL; i++) {
        gather(t, i, WIDE, d);
        times_g_back(d, to, WIDE);
        for (int j = 0; j < KERNEL; j++)
            store(g + at[KERNEL * i + j], to[j]);
    }
}

/* --- all 16 channels ------------------------------------------------------
 */

static void input(float *x, size_t row, const struct conv_edge *edge, float *v,
                  size_t next)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        input_part(x + k, row, edge, v + k, next);
}

static void input_back(float *x, size_t row, const struct conv_edge *edge,
                       float *v, size_t next)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        input_back_part(x + k, row, edge, v + k, next);
}

static void output(const float *m, size_t next, const float *bias, float *y,
                   size_t row, int rows, int columns,
                   const struct conv_end *end)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        output_part(m + k, next, bias ? bias + k : NULL, y + k, row, rows,
                    columns, end->relu, end->gate ? end->gate + k : NULL);
}

static void output_back(const float *dy, size_t row, int rows, int columns,
                        float *v, size_t next)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        output_back_part(dy + k, row, rows, columns, v + k, next);
}

static void weights(const float *g, const size_t *at, float *u, size_t next)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        weights_part(g + k, at, u + k, next);
}

static void weights_back(const float *u, size_t next, float *g,
                         const size_t *at)
{
    for (int k = 0; k < CONV_BLOCK; k += LANES)
        weights_back_part(u + k, next, g + k, at);
}

#define TABLE2(wide, isa) conv_transforms_##wide##_##isa
#define TABLE(wide, isa)  TABLE2(wide, isa)

const struct conv_transforms TABLE(WINOGRAD_WIDE, CONV_ISA) = {
    .wide = WIDE,
    .side = SIDE,
    .kernel = KERNEL,
    .has = HAS,
    .input = input,
    .input_back = input_back,
    .output = output,
    .output_back = output_back,
    .weights = weights,
    .weights_back = weights_back,
};
