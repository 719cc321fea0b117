/* SPDX-License-Identifier: MIT */
/* Tiles of pairs of bf16 for AMX: 16 outputs by up to 14 positions in each of
 * up to four registers. tests/amx_test.c runs this file with the instructions
 * in software; no processor that has them was at hand. Sums over positions,
 * whose operands AMX would want the other way round, are those of AVX512-BF16.
 */
#include "kernels/conv_amx.h"

#include <string.h>

#ifdef CONV_AMX_STAND_IN
#include "amx_stand_in.h"
#else
#include <immintrin.h>
#endif

enum {
    PAIRS = CONV_BLOCK / 2,            /* of channels */
    ROW = PAIRS * sizeof(float),       /* bytes of a position, */
    LINE = CONV_BLOCK * sizeof(float), /* and of 16 outputs */
    MOST = TILE_POSITIONS,
};

/* As ldtilecfg reads it. */
struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Compilers do not know that these instructions read the whole of it. */
#define SETTLE(c) __asm__ volatile("" ::"r"(c) : "memory")

/* Registers 0 to 3 are sums, 4 has what positions read, and 5 weights; so have
 * 6 and 7 of the last block, which may have fewer pairs. */
static void configure(int positions, int last)
{
    struct config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = LINE;
        c.rows[i] = (uint8_t)positions;
    }
    c.row_bytes[4] = ROW;
    c.rows[5] = PAIRS;
    c.row_bytes[6] = (uint16_t)(last * (int)sizeof(float));
    c.rows[7] = (uint8_t)last;
    SETTLE(&c);
    _tile_loadconfig(&c);
}

/* For each of nk sums; the instructions want their numbers as they stand. */
#define EACH_SUM(DO)                                                           \
    DO(0)                                                                      \
    if (nk > 1) {                                                              \
        DO(1)                                                                  \
    }                                                                          \
    if (nk > 2) {                                                              \
        DO(2) DO(3)                                                            \
    }
#define BEGIN(k)                                                               \
    _tile_loadd(k, t->bias ? t->bias + k * CONV_BLOCK : t->y + k * t->y_block,  \
                t->bias ? 0 : t->y_step * sizeof(float));
#define END(k)                                                                 \
    _tile_stored(k, t->y + k * t->y_block, t->y_step * sizeof(float));
#define ADD(k)                                                                 \
    _tile_loadd(5, w + k * CONV_BLOCK, (size_t)nk * LINE);                     \
    _tile_dpbf16ps(k, 4, 5);
#define ADD_LAST(k)                                                            \
    _tile_loadd(7, w + k * CONV_BLOCK, (size_t)nk * LINE);                     \
    _tile_dpbf16ps(k, 6, 7);

static inline void tile(const struct conv_tile *t, const int nk, const int nq)
{
    const float *w = t->w;
    configure(nq, t->last);
    EACH_SUM(BEGIN)
    for (int b = 0; b < t->nblocks; b++) {
        const bool last = b + 1 == t->nblocks;
        const int rows = (last ? t->last : PAIRS) * nk * CONV_BLOCK;
        w += t->before * rows;
        for (int i = 0; i < t->ntaps; i++, w += rows) {
            const float *x = t->x + (size_t)b * t->x_block + t->tap[i];
            if (last) {
                _tile_loadd(6, x, ROW);
                EACH_SUM(ADD_LAST)
            } else {
                _tile_loadd(4, x, ROW);
                EACH_SUM(ADD)
            }
        }
        w += t->after * rows;
    }
    EACH_SUM(END)
    _tile_release();
}

#define TILE(nk, nq)                                                           \
    static void tile_##nk##_##nq(const struct conv_tile *t)                    \
    {                                                                          \
        tile(t, nk, nq);                                                       \
    }
#define NAME(nk, nq) [2 * nk][nq] = tile_##nk##_##nq,
#define TO_14(X, nk)                                                           \
    X(nk, 1)                                                                   \
    X(nk, 2)                                                                   \
    X(nk, 3)                                                                   \
    X(nk, 4)                                                                   \
    X(nk, 5) X(nk, 6) X(nk, 7) X(nk, 8) X(nk, 9) X(nk, 10) X(nk, 11) X(nk, 12) \
        X(nk, 13) X(nk, 14)
#define TILES(X) TO_14(X, 1) TO_14(X, 2) TO_14(X, 4)

TILES(TILE)

static conv_tile_fn *const tiles[TILE_HALVES + 1][MOST + 1] = {TILES(NAME)};

/* All registers whole. x is the first sum of four. */
static void run(long rounds, float factor, float summand, float *x)
{
    struct config c = {.palette = 1};
    float a[CONV_PEAK_FLOATS], b[CONV_PEAK_FLOATS];
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        a[i] = factor, b[i] = summand;
    for (int i = 0; i < 6; i++)
        c.row_bytes[i] = LINE, c.rows[i] = CONV_BLOCK;
    SETTLE(&c);
    _tile_loadconfig(&c);
    _tile_loadd(0, x, LINE);
    _tile_loadd(4, a, LINE);
    _tile_loadd(5, b, LINE);
    for (long i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_stored(0, x, LINE);
    _tile_release();
}

const struct conv_peak conv_peak_amx = {
    .name = "amx",
    .flops = 4.0 * CONV_BLOCK * CONV_BLOCK * 2 * CONV_BLOCK * 2,
    .run = run,
};

const struct conv_isa *conv_isa_amx(void)
{
    static struct conv_isa isa;
    isa = conv_isa_bf16_avx512;
    isa.name = "amx";
    memcpy(isa.tile, tiles, sizeof(tiles));
    for (int halves = 1; halves <= TILE_HALVES; halves++)
        isa.most[halves] = tiles[halves][MOST] ? MOST : 0;
    return &isa;
}
