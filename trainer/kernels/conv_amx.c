/* SPDX-License-Identifier: MIT */
/* Wide tiles and sums for AMX: of two groups of up to 16 positions by two
 * blocks of 16 outputs, or of two blocks of outputs by two of inputs, in four
 * registers of 16 x 16 sums. amx_test (tests/conv_test.c) runs this file with
 * the instructions in software. */
#include "kernels/conv_amx.h"

#ifdef CONV_AMX_STAND_IN
#include "amx_stand_in.h"
#include "kernels/conv_pack.h"
#else
#include <immintrin.h>
#endif

enum {
    LINE = CONV_BLOCK * sizeof(float), /* bytes: 16 sums, or 32 of bf16 */
    ROWS = 16,                         /* of a register, */
    SQUARE = ROWS * CONV_BLOCK,        /* and floats */
};

/* As ldtilecfg reads it. */
struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Compilers do not know that these instructions read the whole of it. */
#define SETTLE(c) __asm__ volatile("" ::"r"(c) : "memory")

/* What this thread's registers are configured for; to configure them takes as
 * long as a dozen products. */
static _Thread_local int configured;

/* Registers 0 and 1 are the sums of the first group, 2 and 3 of the second, 4
 * and 5 what these read, and 6 and 7 what both do. */
static void configure(int first, int second)
{
    const int shape = first * (ROWS + 1) + second;
    if (configured == shape)
        return;
    struct config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = LINE;
        c.rows[i] = i >= 6 ? ROWS : (uint8_t)first;
    }
    c.rows[2] = c.rows[3] = c.rows[5] = (uint8_t)(second ? second : first);
    SETTLE(&c);
    _tile_loadconfig(&c);
    configured = shape;
}

static void end(void)
{
    if (configured)
        _tile_release();
    configured = 0;
#ifndef CONV_AMX_STAND_IN
    _mm_sfence(); /* what was streamed comes before what is stored next */
#endif
}

/* DO(register, group, block) for each sum; the instructions want their numbers
 * as they stand. */
#define EACH_SUM(DO)                                                           \
    DO(0, 0, 0)                                                                \
    if (nk > 1) {                                                              \
        DO(1, 0, 1)                                                            \
    }                                                                          \
    if (both) {                                                                \
        DO(2, 1, 0)                                                            \
    }                                                                          \
    if (both && nk > 1) {                                                      \
        DO(3, 1, 1)                                                            \
    }
#define BEGIN_HALF(i, group, k)                                                \
    get_half(t->y + k * t->y_block + group * t->y_others, t->y_step, kept[i],  \
             group ? t->others : t->positions);                                \
    SETTLE(kept[i]);                                                           \
    _tile_loadd(i, kept[i], LINE);
#define BEGIN(i, group, k)                                                     \
    _tile_loadd(i,                                                             \
                t->bias ? t->bias + k *CONV_BLOCK                              \
                        : t->y + k * t->y_block + group * t->y_others,         \
                t->bias ? 0 : t->y_step * sizeof(float));
#define END(i, group, k)                                                       \
    _tile_stored(i, t->y + k * t->y_block + group * t->y_others,               \
                 t->y_step * sizeof(float));
#define KEEP(i, group, k) _tile_stored(i, kept[i], LINE);
#define STREAM(i, group, k)                                                    \
    stream(t->y + k * t->y_block + group * t->y_others, t->y_step, kept[i],    \
           group ? t->others : t->positions);
#define PUT_HALF(i, group, k)                                                  \
    put_half(t->y + k * t->y_block + group * t->y_others, t->y_step, kept[i],  \
             group ? t->others : t->positions, t->stream);
#define BEGIN_SUM(i, group, k)                                                 \
    if (s->add)                                                                \
        _tile_loadd(i, s->dw + group * s->dw_output + k * s->dw_input, LINE);  \
    else                                                                       \
        _tile_zero(i);
#define END_SUM(i, group, k)                                                   \
    _tile_stored(i, s->dw + group * s->dw_output + k * s->dw_input, LINE);

/* Sums += products of two groups and two blocks, of which there may be one. */
static inline void multiply(const float *group, ptrdiff_t other,
                            const float *block, size_t next, size_t row,
                            const bool both, const int nk)
{
    _tile_loadd(4, group, LINE);
    _tile_loadd(6, block, row);
    _tile_dpbf16ps(0, 4, 6);
    if (nk > 1) {
        _tile_loadd(7, block + next, row);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (both) {
        _tile_loadd(5, group + other, LINE);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (both && nk > 1)
        _tile_dpbf16ps(3, 5, 7);
}

/* Lines to memory, without reading there first. */
static inline void stream(float *to, size_t step, const float *from, int lines)
{
    for (; lines > 0; lines--, to += step, from += CONV_BLOCK)
#ifdef CONV_AMX_STAND_IN
        memcpy(to, from, LINE);
#else
        _mm512_stream_ps(to, _mm512_load_ps(from));
#endif
}

/* Positions of 16 outputs, rounded. */
static inline void put_half(float *to, size_t step, const float *from, int n,
                            bool past)
{
    for (; n > 0; n--, to += step, from += CONV_BLOCK) {
#ifdef CONV_AMX_STAND_IN
        (void)past;
        conv_isa_bf16()->round->row(from, to, CONV_BLOCK);
#else
        const __m256i v = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(from));
        if (past)
            _mm256_stream_si256((__m256i *)to, v);
        else
            _mm256_storeu_si256((__m256i *)to, v);
#endif
    }
}

/* The other way round. */
static inline void get_half(const float *from, size_t step, float *to, int n)
{
    for (; n > 0; n--, from += step, to += CONV_BLOCK) {
#ifdef CONV_AMX_STAND_IN
        for (int c = 0; c < CONV_BLOCK; c++) {
            const uint32_t bits = (uint32_t)((const uint16_t *)from)[c] << 16;
            memcpy(&to[c], &bits, sizeof(bits));
        }
#else
        const __m512i v =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from));
        _mm512_store_si512(to, _mm512_slli_epi32(v, 16));
#endif
    }
}

static inline void tile_of(const struct conv_tile *t, const bool both,
                           const int nk)
{
    const float *w = t->w;
    const int rows = ROWS * nk * CONV_BLOCK;
    _Alignas(LINE) float kept[4][SQUARE];
    if (t->half && !t->bias) {
        EACH_SUM(BEGIN_HALF)
    } else {
        EACH_SUM(BEGIN)
    }
    for (int b = 0; b < t->nblocks; b++) {
        w += t->before * rows;
        for (int i = 0; i < t->ntaps; i++, w += rows) {
            const float *x = t->x + (size_t)b * t->x_block + t->tap[i];
            multiply(x, t->x_others, w, CONV_BLOCK, (size_t)nk * LINE, both,
                     nk);
        }
        w += t->after * rows;
    }
    if (t->stream || t->half) {
        EACH_SUM(KEEP)
        if (t->half) {
            EACH_SUM(PUT_HALF)
        } else {
            EACH_SUM(STREAM)
        }
    } else {
        EACH_SUM(END)
    }
}

static void tile(const struct conv_tile *t, int nk)
{
    configure(t->positions, t->others);
    if (t->others)
        nk > 1 ? tile_of(t, true, 2) : tile_of(t, true, 1);
    else
        nk > 1 ? tile_of(t, false, 2) : tile_of(t, false, 1);
}

static inline void sum_of(const struct conv_wide_sum *s, const bool both,
                          const int nk)
{
    EACH_SUM(BEGIN_SUM)
    for (int i = 0; i < s->images; i++) {
        const float *dy = s->dy + (size_t)i * s->dy_image;
        const float *x = s->x + (size_t)i * s->x_image;
        for (int j = 0; j < s->steps; j++, dy += SQUARE, x += SQUARE)
            multiply(dy, (ptrdiff_t)s->dy_block, x, s->x_block, LINE, both, nk);
    }
    EACH_SUM(END_SUM)
}

static void sum(const struct conv_wide_sum *s)
{
    configure(ROWS, ROWS);
    if (s->nk > 1)
        s->nc > 1 ? sum_of(s, true, 2) : sum_of(s, true, 1);
    else
        s->nc > 1 ? sum_of(s, false, 2) : sum_of(s, false, 1);
}

const struct conv_wide conv_wide_amx = {tile, sum, end};

/* All registers whole. x is the first sum of four. */
static void run(long rounds, float factor, float summand, float *x)
{
    float a[CONV_PEAK_FLOATS], b[CONV_PEAK_FLOATS];
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        a[i] = factor, b[i] = summand;
    SETTLE(a);
    SETTLE(b);
    configure(ROWS, ROWS);
    _tile_loadd(0, x, LINE);
    _tile_loadd(4, a, LINE);
    _tile_loadd(6, b, LINE);
    for (long i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, x, LINE);
    end();
}

const struct conv_peak conv_peak_amx = {
    .name = "amx",
    .flops = 4.0 * CONV_BLOCK * CONV_BLOCK * 2 * CONV_BLOCK * 2,
    .run = run,
};
