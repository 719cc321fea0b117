/* SPDX-License-Identifier: MIT */
/* The tiles for one instruction set: CONV_ISA, with CONV_LANES floats in a
 * register, and one type of operands: float, or with CONV_BF16 pairs of bf16.
 * All loops over tiles are unrolled, so that sums stay in registers. */
#include "kernels/conv_tile.h"

#include "kernels/reg.h"

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

#ifdef CONV_BF16
#include "kernels/conv_pair.h"
#define TABLE conv_isa_bf16_
#define ROUND &NAME(conv_round_, CONV_ISA)
enum { PLACE = CONV_BLOCK / 2 }; /* floats of a position */
#else
#define TABLE conv_isa_
#define ROUND NULL
enum { PLACE = CONV_BLOCK };

typedef reg operand;

INLINE operand operands(const float *x)
{
    return load(x);
}

INLINE operand repeated(const float *x)
{
    return *x - (reg){0};
}

INLINE reg add_product(reg sum, operand a, operand b)
{
    return sum + a * b;
}
#endif

/* A w that several products read: gcc would load it for each of some, and two
 * loads a cycle are all there are. */
INLINE operand once_loaded(operand w)
{
#if defined(__x86_64__) && CONV_LANES == 8 && !defined(CONV_BF16)
    __asm__("" : "+x"(w));
#endif
    return w;
}

/* w, but the compiler does not know that what it reads there is known. */
INLINE const float *again(const float *w)
{
    __asm__("" : "+r"(w));
    return w;
}

/* acc += x w for positions from lo to hi - 1 of nq, `step` floats apart, and nc
 * channels; returns the w that follow. Where sums, w and one x are a register
 * too many, those of 16 floats let products read the last w from memory; others
 * hold all x and one w, if these are fewer. */
INLINE const float *add(reg acc[][TILE_POSITIONS], const float *x,
                        ptrdiff_t step, const float *w, int nc, const int nk,
                        const int parts, const int nq, const int lo,
                        const int hi)
{
    const bool full = parts * (nq + 1) == CONV_REGISTERS;
    const bool by_w = full && CONV_LANES < 16 && nq < parts;
    const int held = parts - (full && CONV_LANES == 16);
    for (int c = 0; by_w && c < nc; c++, x++, w += nk * CONV_BLOCK) {
        operand ones[TILE_POSITIONS];
#pragma GCC unroll 16
        for (int q = lo; q < hi; q++)
            ones[q] = repeated(x + q * step);
#pragma GCC unroll 16
        for (int k = 0; k < parts; k++) {
            const operand wk = operands(w + k * LANES);
#pragma GCC unroll 16
            for (int q = lo; q < hi; q++)
                acc[k][q] = add_product(acc[k][q], wk, ones[q]);
        }
    }
    for (int c = 0; !by_w && c < nc; c++, x++, w += nk * CONV_BLOCK) {
        operand wk[TILE_BLOCKS * PARTS];
#pragma GCC unroll 16
        for (int k = 0; k < held; k++) {
            const operand wx = operands(w + k * LANES);
            wk[k] = hi - lo > 1 ? once_loaded(wx) : wx;
        }
        const float *last = w + held * LANES;
#pragma GCC unroll 16
        for (int q = lo; q < hi; q++) {
            const operand one = repeated(x + q * step);
#pragma GCC unroll 16
            for (int k = 0; k < parts; k++)
                acc[k][q] = add_product(
                    acc[k][q], k < held ? wk[k] : operands(last = again(last)),
                    one);
        }
    }
    return w;
}

/* of: blocks, or HALF, which leaves the other channels of a block at their bias
 * or as they are. */
INLINE void tile(const struct conv_tile *t, const ptrdiff_t step, const int of,
                 const int nq)
{
    const int nk = of == HALF ? 1 : of;
    const int parts = of == HALF ? PARTS / 2 : nk * PARTS;
    reg acc[TILE_BLOCKS * PARTS][TILE_POSITIONS];
    const float *w = t->w;
    /* What is written at the end, or what the next tile adds to. */
    const float *soon = t->y + (t->bias ? 0 : nq * t->y_step);
#pragma GCC unroll 16
    for (int k = 0; k < nk; k++)
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
            __builtin_prefetch(soon + (size_t)k * t->y_block + q * t->y_step,
                               1);
#pragma GCC unroll 16
    for (int k = 0; k < parts; k++) {
        const float *from = t->y + (size_t)(k / PARTS) * t->y_block;
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
            acc[k][q] =
                load(t->bias ? t->bias + k * LANES
                             : from + q * t->y_step + k % PARTS * LANES);
    }
    for (int b = 0; b < t->nblocks; b++) {
        const int nc = b + 1 < t->nblocks ? PLACE : t->last;
        const float *block = t->x + (size_t)b * t->x_block;
        w += t->before * nc * nk * CONV_BLOCK;
        if (t->ahead)
#pragma GCC unroll 16
            for (int q = 0; q < nq; q++)
                __builtin_prefetch(block + t->ahead + q * step);
        for (int i = 0; i < t->ntaps; i++) {
            const float *x = block + t->tap[i];
            int lo = 0, hi = nq;
            /* Positions at one side that read padding are left out, up to
             * TILE_EDGE; others read zeros. */
            if (t->inside) {
                lo = t->inside[i].from - t->column;
                hi = t->inside[i].to - t->column;
            }
            if (lo == 1 && hi >= nq)
                w = add(acc, x, step, w, nc, nk, parts, nq, 1, nq);
            else if (lo == 2 && hi >= nq)
                w = add(acc, x, step, w, nc, nk, parts, nq, 2, nq);
            else if (lo <= 0 && hi == nq - 1)
                w = add(acc, x, step, w, nc, nk, parts, nq, 0, nq - 1);
            else if (lo <= 0 && hi == nq - 2)
                w = add(acc, x, step, w, nc, nk, parts, nq, 0, nq - 2);
            else
                w = add(acc, x, step, w, nc, nk, parts, nq, 0, nq);
        }
        w += t->after * nc * nk * CONV_BLOCK;
    }
#pragma GCC unroll 16
    for (int k = 0; k < parts; k++) {
        float *to = t->y + (size_t)(k / PARTS) * t->y_block + k % PARTS * LANES;
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
            store(to + q * t->y_step, acc[k][q]);
    }
    if (of != HALF || !t->bias)
        return;
#pragma GCC unroll 16
    for (int k = parts; k < PARTS; k++)
#pragma GCC unroll 16
        for (int q = 0; q < nq; q++)
            store(t->y + q * t->y_step + k * LANES, load(t->bias + k * LANES));
}

/* To the second cache; returns the line after them. */
INLINE const float *fetch(const float *x, int lines)
{
    for (int i = 0; i < lines; i++, x += CONV_BLOCK)
        __builtin_prefetch(x, 0, 2);
    return x;
}

/* acc += x dy over all positions of all images. */
INLINE void add_all(reg acc[][TILE_BLOCKS * PARTS], const struct conv_sum *t,
                    const int parts, const int nc, const bool fetches)
{
    for (int i = 0; i < t->images; i++) {
        const float *x_soon = t->x_soon + i * t->x_image;
        const float *dy_soon = t->dy_soon + i * t->dy_image;
        for (int r = 0; r < t->rows; r++) {
            const float *x = t->x + i * t->x_image + r * t->x_row;
            const float *dy = t->dy + i * t->dy_image + r * t->dy_row;
            for (int q = 0; q < t->columns;
                 q++, x += CONV_BLOCK, dy += CONV_BLOCK) {
                if (fetches && q % CONV_BLOCK == 0) {
                    x_soon = fetch(x_soon, t->x_lines);
                    dy_soon = fetch(dy_soon, t->dy_lines);
                }
                operand dyk[TILE_BLOCKS * PARTS];
#pragma GCC unroll 16
                for (int k = 0; k < parts; k++)
                    dyk[k] = operands(dy + (size_t)(k / PARTS) * t->dy_block
                                      + k % PARTS * LANES);
#pragma GCC unroll 16
                for (int c = 0; c < nc; c++) {
                    const operand one = repeated(x + c);
#pragma GCC unroll 16
                    for (int k = 0; k < parts; k++)
                        acc[c][k] = add_product(acc[c][k], dyk[k], one);
                }
            }
        }
    }
}

INLINE void sum(const struct conv_sum *t, const int of, const int nc)
{
    const int nk = of == HALF ? 1 : of;
    const int parts = of == HALF ? PARTS / 2 : nk * PARTS;
    reg acc[CONV_BLOCK][TILE_BLOCKS * PARTS];
#pragma GCC unroll 16
    for (int c = 0; c < nc; c++)
#pragma GCC unroll 16
        for (int k = 0; k < parts; k++)
            acc[c][k] = load(t->dw + c * nk * CONV_BLOCK + k * LANES);
            /* The next sums. */
#pragma GCC unroll 16
    for (int c = 0; c < nc * nk; c++)
        __builtin_prefetch(t->dw + (nc * nk + c) * CONV_BLOCK, 1);
    if (t->x_lines || t->dy_lines)
        add_all(acc, t, parts, nc, true);
    else
        add_all(acc, t, parts, nc, false);
#pragma GCC unroll 16
    for (int c = 0; c < nc; c++)
#pragma GCC unroll 16
        for (int k = 0; k < parts; k++)
            store(t->dw + c * nk * CONV_BLOCK + k * LANES, acc[c][k]);
}

#define TILE(nk, nq)                                                           \
    static void tile_##nk##_##nq(const struct conv_tile *t)                    \
    {                                                                          \
        tile(t, PLACE, nk, nq);                                                \
    }
#define APART(nk, nq)                                                          \
    static void apart_##nk##_##nq(const struct conv_tile *t)                   \
    {                                                                          \
        tile(t, (ptrdiff_t)t->x_step, nk, nq);                                 \
    }
#define SUM(nk, nc)                                                            \
    static void sum_##nk##_##nc(const struct conv_sum *t)                      \
    {                                                                          \
        sum(t, nk, nc);                                                        \
    }
#define ROW(nk, nq)       [nk][nq] = tile_##nk##_##nq,
#define APART_ROW(nk, nq) [nk][nq] = apart_##nk##_##nq,
#define SUM_ROW(nk, nc)   [nk][nc] = sum_##nk##_##nc,

#define TO_3(X, nk)  X(nk, 1) X(nk, 2) X(nk, 3)
#define TO_4(X, nk)  TO_3(X, nk) X(nk, 4)
#define TO_6(X, nk)  TO_4(X, nk) X(nk, 5) X(nk, 6)
#define TO_7(X, nk)  TO_6(X, nk) X(nk, 7)
#define TO_8(X, nk)  TO_7(X, nk) X(nk, 8)
#define TO_12(X, nk) TO_8(X, nk) X(nk, 9) X(nk, 10) X(nk, 11) X(nk, 12)
#define TO_14(X, nk) TO_12(X, nk) X(nk, 13) X(nk, 14)
#define TO_16(X, nk) TO_14(X, nk) X(nk, 15) X(nk, 16)

/* nk 0 is HALF. Of 32 registers of 16 floats, 16 of 8, 32 of 4 and, at the
 * least, 16 of 4. */
#if CONV_REGISTERS == 32 && CONV_LANES == 16
#define TILES(X) TO_14(X, 1) TO_14(X, 2) TO_7(X, 4)
#define SUMS(X)  TO_16(X, 1) TO_8(X, 2)
#define MOST                                                                   \
    {                                                                          \
        0, 14, 14, 0, 7                                                        \
    }
#define WINOGRAD_WIDEST 4
#define SUM_MOST                                                               \
    {                                                                          \
        0, 16, 8                                                               \
    }
#elif CONV_REGISTERS * CONV_LANES == 128
#define TILES(X) TO_12(X, 0) TO_6(X, 1) TO_3(X, 2)
#define SUMS(X)  TO_12(X, 0) TO_6(X, 1)
#define MOST                                                                   \
    {                                                                          \
        12, 6, 3                                                               \
    }
#define WINOGRAD_WIDEST 1
#define SUM_MOST                                                               \
    {                                                                          \
        12, 6                                                                  \
    }
#else
#define TILES(X) TO_6(X, 0) TO_3(X, 1)
#define SUMS(X)  TO_4(X, 0) TO_3(X, 1)
#define MOST                                                                   \
    {                                                                          \
        6, 3                                                                   \
    }
#define WINOGRAD_WIDEST 1
#define SUM_MOST                                                               \
    {                                                                          \
        4, 2                                                                   \
    }
#endif

TILES(TILE)
TILES(APART)
SUMS(SUM)

const struct conv_isa NAME(TABLE, CONV_ISA) = {
    .name = TEXT(CONV_ISA),
    .turn = &NAME(conv_turn_, CONV_ISA),
    .transforms = {&NAME(conv_transforms_6_, CONV_ISA),
                   &NAME(conv_transforms_8_, CONV_ISA),
                   &NAME(conv_transforms_5_, CONV_ISA)},
    .lanes = &NAME(lanes_, CONV_ISA),
    .round = ROUND,
    .most = MOST,
    .winograd_widest = WINOGRAD_WIDEST,
    .tile = {TILES(ROW)},
    .apart = {TILES(APART_ROW)},
    .sum_most = SUM_MOST,
    .sum = {SUMS(SUM_ROW)                       },
};
