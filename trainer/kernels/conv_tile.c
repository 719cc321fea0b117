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

/* Channels of a turn of the innermost loop. With AVX-512 one makes it long
 * enough, and of NEON's two gcc keeps some in memory. */
enum { AT_ONCE = CONV_LANES == 8 ? 2 : 1 };

/* Channels whose weights AVX-512 asks for before they are read: a tile goes
 * through all of them for a few positions, and they lie in the second cache. */
enum { AHEAD = 8 };

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
PER_CASE const float *add(reg acc[][TILE_POSITIONS], const float *x,
                          ptrdiff_t step, const float *w, int nc, const int nk,
                          const int parts, const int nq, const int lo,
                          const int hi)
{
    const bool full = parts * (nq + 1) == CONV_REGISTERS;
    const bool by_w = full && CONV_LANES < 16 && nq < parts;
    const int held = parts - (full && CONV_LANES == 16);
    UNROLL(AT_ONCE)
    for (int c = 0; by_w && c < nc; c++, x++, w += nk * CONV_BLOCK) {
        operand ones[TILE_POSITIONS];
        UNROLL(16)
        for (int q = lo; q < hi; q++)
            ones[q] = repeated(x + q * step);
        UNROLL(16)
        for (int k = 0; k < parts; k++) {
            const operand wk = operands(w + k * LANES);
            UNROLL(16)
            for (int q = lo; q < hi; q++)
                acc[k][q] = add_product(acc[k][q], wk, ones[q]);
        }
    }
    UNROLL(AT_ONCE)
    for (int c = 0; !by_w && c < nc; c++, x++, w += nk * CONV_BLOCK) {
        operand wk[TILE_BLOCKS * PARTS];
        UNROLL(16)
        for (int k = 0; k < nk && CONV_LANES == 16; k++)
            __builtin_prefetch(w + (AHEAD * nk + k) * CONV_BLOCK);
        UNROLL(16)
        for (int k = 0; k < held; k++) {
            const operand wx = operands(w + k * LANES);
            wk[k] = hi - lo > 1 ? once_loaded(wx) : wx;
        }
        const float *last = w + held * LANES;
        UNROLL(16)
        for (int q = lo; q < hi; q++) {
            const operand one = repeated(x + q * step);
            UNROLL(16)
            for (int k = 0; k < parts; k++)
                acc[k][q] = add_product(
                    acc[k][q], k < held ? wk[k] : operands(last = again(last)),
                    one);
        }
    }
    return w;
}

/* Of this tile's outputs; it is read when all products are added. */
PER_CASE void ask_for_gate(const struct conv_tile *t, const int nk,
                           const int nq)
{
    const float *gate = t->gate + (t->y - t->dx);
    UNROLL(16)
    for (int k = 0; k < nk; k++) {
        UNROLL(16)
        for (int q = 0; q < nq; q++)
            __builtin_prefetch(gate + (size_t)k * t->y_block + q * t->y_step);
    }
}

/* y, with the relu's work if it `ends`. Stores might change *t, for all that
 * gcc knows. */
PER_CASE void put(const struct conv_tile *t, reg acc[][TILE_POSITIONS],
                  const int parts, const int nq, const bool ends)
{
    const size_t step = t->y_step;
    const bool relu = t->relu;
    const float *const gate = t->gate, *const dx = t->dx;
    UNROLL(16)
    for (int k = 0; k < parts; k++) {
        float *to = t->y + (size_t)(k / PARTS) * t->y_block + k % PARTS * LANES;
        UNROLL(16)
        for (int q = 0; q < nq; q++, to += step) {
            reg v = acc[k][q];
            if (ends && relu)
                v = where_above(v, v);
            if (ends && gate)
                v = where_above(load(gate + (to - dx)), v);
            store(to, v);
        }
    }
}

PER_CASE void tile(const struct conv_tile *t, const ptrdiff_t step,
                   const int halves, const int nq)
{
    const int nk = (halves + 1) / 2;
    const int parts = halves * PARTS / 2;
    reg acc[TILE_BLOCKS * PARTS][TILE_POSITIONS];
    const float *w = t->w;
    /* What is written at the end, or what the next tile adds to. */
    const float *soon = t->y + (t->bias ? 0 : nq * t->y_step);
    UNROLL(16)
    for (int k = 0; k < nk; k++) {
        UNROLL(16)
        for (int q = 0; q < nq; q++)
            __builtin_prefetch(soon + (size_t)k * t->y_block + q * t->y_step,
                               1);
    }
    if (t->gate)
        ask_for_gate(t, nk, nq);
    UNROLL(16)
    for (int k = 0; k < parts; k++) {
        const float *from = t->y + (size_t)(k / PARTS) * t->y_block;
        UNROLL(16)
        for (int q = 0; q < nq; q++)
            acc[k][q] =
                load(t->bias ? t->bias + k * LANES
                             : from + q * t->y_step + k % PARTS * LANES);
    }
    for (int b = 0; b < t->nblocks; b++) {
        const int nc = b + 1 < t->nblocks ? PLACE : t->last;
        const float *block = t->x + (size_t)b * t->x_block;
        w += t->before * nc * nk * CONV_BLOCK;
        if (t->ahead) {
            UNROLL(16)
            for (int q = 0; q < nq; q++)
                __builtin_prefetch(block + t->ahead + q * step);
        }
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
    if (t->relu || t->gate)
        put(t, acc, parts, nq, true);
    else
        put(t, acc, parts, nq, false);
    if (halves % 2 == 0 || !t->bias)
        return;
    UNROLL(16)
    for (int k = parts; k < nk * PARTS; k++) {
        float *to = t->y + (size_t)(k / PARTS) * t->y_block + k % PARTS * LANES;
        UNROLL(16)
        for (int q = 0; q < nq; q++)
            store(to + q * t->y_step, load(t->bias + k * LANES));
    }
}

/* To the second cache; returns the line after them. */
INLINE const float *fetch(const float *x, int lines)
{
    for (int i = 0; i < lines; i++, x += CONV_BLOCK)
        __builtin_prefetch(x, 0, 2);
    return x;
}

/* Blocks of the widest sums. */
enum { SUM_WIDEST = CONV_LANES == 16 ? 2 : 1 };

/* How many sets of sums take turns, position by position: two where one has so
 * few that they would wait for each other. As many with a block as with the
 * most, since shares of the outputs cut blocks elsewhere and have the same
 * bits.
 */
INLINE int banks(const int halves, const int nc)
{
    const int enough = 8; /* two a cycle, each after four */
    const int parts = halves % 2 ? PARTS / 2 : SUM_WIDEST * PARTS;
    return nc * parts < enough && (2 * nc + 1) * parts < CONV_REGISTERS ? 2 : 1;
}

/* acc += x dy of one position. */
PER_CASE void add_one(reg acc[][TILE_BLOCKS * PARTS], const struct conv_sum *t,
                      const float *x, const float *dy, const int parts,
                      const int nc)
{
    operand dyk[TILE_BLOCKS * PARTS];
    UNROLL(16)
    for (int k = 0; k < parts; k++)
        dyk[k] = operands(dy + (size_t)(k / PARTS) * t->dy_block
                          + k % PARTS * LANES);
    UNROLL(16)
    for (int c = 0; c < nc; c++) {
        const operand one = repeated(x + c);
        UNROLL(16)
        for (int k = 0; k < parts; k++)
            acc[c][k] = add_product(acc[c][k], dyk[k], one);
    }
}

/* Of all positions of all images, `step` at a time. */
PER_CASE void add_all(reg acc[][TILE_BLOCKS * PARTS], const struct conv_sum *t,
                      const int parts, const int nc, const int step,
                      const bool fetches)
{
    for (int i = 0; i < t->images; i++) {
        const float *x_soon = t->x_soon + i * t->x_image;
        const float *dy_soon = t->dy_soon + i * t->dy_image;
        for (int r = 0; r < t->rows; r++) {
            const float *x = t->x + i * t->x_image + r * t->x_row;
            const float *dy = t->dy + i * t->dy_image + r * t->dy_row;
            int q = 0;
            for (; q + step <= t->columns; q += step) {
                if (fetches && q % CONV_BLOCK == 0) {
                    x_soon = fetch(x_soon, t->x_lines);
                    dy_soon = fetch(dy_soon, t->dy_lines);
                }
                UNROLL(2)
                for (int j = 0; j < step;
                     j++, x += CONV_BLOCK, dy += CONV_BLOCK)
                    add_one(acc + j * nc, t, x, dy, parts, nc);
            }
            if (step > 1 && q < t->columns)
                add_one(acc, t, x, dy, parts, nc);
        }
    }
}

PER_CASE void sum(const struct conv_sum *t, const int halves, const int nc)
{
    const int nk = (halves + 1) / 2;
    const int parts = halves * PARTS / 2;
    const int step = banks(halves, nc);
    reg acc[CONV_BLOCK][TILE_BLOCKS * PARTS] = {0};
    UNROLL(16)
    for (int c = 0; c < nc; c++) {
        UNROLL(16)
        for (int k = 0; k < parts; k++)
            acc[c][k] = load(t->dw + c * nk * CONV_BLOCK + k * LANES);
    }
    /* The next sums. */
    UNROLL(16)
    for (int c = 0; c < nc * nk; c++)
        __builtin_prefetch(t->dw + (nc * nk + c) * CONV_BLOCK, 1);
    if (t->x_lines || t->dy_lines)
        add_all(acc, t, parts, nc, step, true);
    else
        add_all(acc, t, parts, nc, step, false);
    UNROLL(16)
    for (int c = 0; c < nc; c++) {
        UNROLL(16)
        for (int k = 0; k < parts; k++)
            store(t->dw + c * nk * CONV_BLOCK + k * LANES,
                  step > 1 ? acc[c][k] + acc[nc + c][k] : acc[c][k]);
    }
}

#define TILE(halves, nq)                                                       \
    static void tile_##halves##_##nq(const struct conv_tile *t)                \
    {                                                                          \
        tile(t, PLACE, halves, nq);                                            \
    }
#define APART(halves, nq)                                                      \
    static void apart_##halves##_##nq(const struct conv_tile *t)               \
    {                                                                          \
        tile(t, (ptrdiff_t)t->x_step, halves, nq);                             \
    }
#define SUM(halves, nc)                                                        \
    static void sum_##halves##_##nc(const struct conv_sum *t)                  \
    {                                                                          \
        sum(t, halves, nc);                                                    \
    }
#define ROW(halves, nq)       [halves][nq] = tile_##halves##_##nq,
#define APART_ROW(halves, nq) [halves][nq] = apart_##halves##_##nq,
#define SUM_ROW(halves, nc)   [halves][nc] = sum_##halves##_##nc,

#define TO_3(X, halves) X(halves, 1) X(halves, 2) X(halves, 3)
#define TO_4(X, halves) TO_3(X, halves) X(halves, 4)
#define TO_6(X, halves) TO_4(X, halves) X(halves, 5) X(halves, 6)
#define TO_7(X, halves) TO_6(X, halves) X(halves, 7)
#define TO_8(X, halves) TO_7(X, halves) X(halves, 8)
#define TO_12(X, halves)                                                       \
    TO_8(X, halves)                                                            \
    X(halves, 9) X(halves, 10) X(halves, 11) X(halves, 12)
#define TO_14(X, halves) TO_12(X, halves) X(halves, 13) X(halves, 14)
#define TO_16(X, halves) TO_14(X, halves) X(halves, 15) X(halves, 16)

/* Of 32 registers of 16 floats, 16 of 8, 32 of 4 and, at the least, 16 of 4. */
#if CONV_REGISTERS == 32 && CONV_LANES == 16
#define TILES(X) TO_14(X, 2) TO_14(X, 4) TO_7(X, 8)
#define SUMS(X)  TO_16(X, 2) TO_8(X, 4)
#define MOST                                                                   \
    {                                                                          \
        [2] = 14, [4] = 14, [8] = 7                                            \
    }
#define SUM_MOST                                                               \
    {                                                                          \
        [2] = 16, [4] = 8                                                      \
    }
#define FAR_WIDEST 4
#define NEAR       0
#define SUM_NEAR   196
#elif CONV_REGISTERS * CONV_LANES == 128
#define TILES(X) TO_12(X, 1) TO_6(X, 2) TO_4(X, 3) TO_3(X, 4)
#define SUMS(X)  TO_12(X, 1) TO_6(X, 2)
#define MOST                                                                   \
    {                                                                          \
        [1] = 12, [2] = 6, [3] = 4, [4] = 3                                    \
    }
#define SUM_MOST                                                               \
    {                                                                          \
        [1] = 12, [2] = 6                                                      \
    }
#define FAR_WIDEST 1
#define NEAR       8
#define SUM_NEAR   784
#else
#define TILES(X) TO_6(X, 1) TO_3(X, 2)
#define SUMS(X)  TO_4(X, 1) TO_3(X, 2)
#define MOST                                                                   \
    {                                                                          \
        [1] = 6, [2] = 3                                                       \
    }
#define SUM_MOST                                                               \
    {                                                                          \
        [1] = 4, [2] = 2                                                       \
    }
#define FAR_WIDEST 1
#define NEAR       0
#define SUM_NEAR   196
#endif

_Static_assert(sizeof((const int[])SUM_MOST) / sizeof(int)
                   == 2 * SUM_WIDEST + 1,
               "it is of the last row");

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
    .far_widest = FAR_WIDEST,
    .near = NEAR,
    .tile = {TILES(ROW)},
    .apart = {TILES(APART_ROW)},
    .sum_near = SUM_NEAR,
    .sum_most = SUM_MOST,
    .sum = {SUMS(SUM_ROW)                       },
};
