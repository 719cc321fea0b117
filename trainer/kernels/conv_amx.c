/* SPDX-License-Identifier: MIT */
/* Wide tiles and sums for AMX: of up to three groups of up to 16 positions by
 * two blocks of 16 outputs, or of three sheets of inputs by two blocks of
 * outputs, in six registers of 16 x 16 sums. Six want five operands, two of
 * which are loaded twice, the second time from the first cache, where four want
 * four. amx_test (tests/conv_test.c) runs this file with the instructions in
 * software. */
#include "kernels/conv_amx.h"

#include <string.h>

#ifdef CONV_AMX_STAND_IN
#include "amx_stand_in.h"
#include "half.h"
#include "kernels/conv_pack.h"
#else
#include <immintrin.h>
#endif

enum {
    LINE = CONV_BLOCK * sizeof(float), /* bytes: 16 sums, or 32 of bf16 */
    ROWS = 16,                         /* of a register, */
    SQUARE = ROWS * CONV_BLOCK,        /* and floats */
    SUMS = 6,
};

/* As ldtilecfg reads it. */
struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Compilers do not know that these instructions read the whole of it. */
#define SETTLE(c) __asm__ volatile("" ::"r"(c) : "memory")

/* How many rows this thread's registers are configured for; to configure them
 * takes as long as a dozen products. */
static _Thread_local int configured;

/* Registers 0 to 5 are sums, 2 g + k of group or sheet g and block k; 6 is what
 * the block brings, 7 what the group or sheet does. Of tiles it is positions
 * that sums and register 7 have as rows. */
static void configure(int rows)
{
    if (configured == rows)
        return;
    struct config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = LINE;
        c.rows[i] = i == 6 ? ROWS : (uint8_t)rows;
    }
    SETTLE(&c);
    _tile_loadconfig(&c);
    configured = rows;
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
#define IF_SUM(DO, i, g, k)                                                    \
    if ((g) < ng && (k) < nk) {                                                \
        DO(i, g, k)                                                            \
    }
#define EACH_SUM(DO)                                                           \
    IF_SUM(DO, 0, 0, 0)                                                        \
    IF_SUM(DO, 1, 0, 1)                                                        \
    IF_SUM(DO, 2, 1, 0)                                                        \
    IF_SUM(DO, 3, 1, 1)                                                        \
    IF_SUM(DO, 4, 2, 0)                                                        \
    IF_SUM(DO, 5, 2, 1)

/* Positions of 16 outputs, `step` floats apart there, as is gate, if any; past
 * the caches where they are streamed. */
static inline void put_whole(const struct conv_tile *t, float *to,
                             const float *from, int n, const float *gate)
{
    for (; n > 0; n--, to += t->y_step, from += CONV_BLOCK) {
#ifdef CONV_AMX_STAND_IN
        for (int c = 0; c < CONV_BLOCK; c++)
            to[c] = (!t->relu || from[c] > 0) && (!gate || gate[c] > 0)
                        ? from[c]
                        : 0;
#else
        const __m512 zero = _mm512_setzero_ps();
        __m512 v = _mm512_load_ps(from);
        if (t->relu)
            v = _mm512_max_ps(v, zero);
        if (gate)
            v = _mm512_maskz_mov_ps(
                _mm512_cmp_ps_mask(_mm512_loadu_ps(gate), zero, _CMP_GT_OQ), v);
        if (t->stream)
            _mm512_stream_ps(to, v);
        else
            _mm512_storeu_ps(to, v);
#endif
        gate = gate ? gate + t->y_step : NULL;
    }
}

/* The same, rounded. */
static inline void put_half(const struct conv_tile *t, float *to,
                            const float *from, int n, const float *gate)
{
    for (; n > 0; n--, to += t->y_step, from += CONV_BLOCK) {
#ifdef CONV_AMX_STAND_IN
        uint16_t *half = (uint16_t *)to;
        conv_isa_bf16()->round->row(from, to, CONV_BLOCK);
        for (int c = 0; c < CONV_BLOCK; c++)
            if ((t->relu && !half_positive(half[c]))
                || (gate && !half_positive(((const uint16_t *)gate)[c])))
                half[c] = 0;
#else
        __m512 whole = _mm512_load_ps(from);
        if (t->relu)
            whole = _mm512_max_ps(whole, _mm512_setzero_ps());
        __m256i v = (__m256i)_mm512_cvtneps_pbh(whole);
        if (gate) /* all but NaN are in the order of such integers */
            v = _mm256_and_si256(
                v, _mm256_cmpgt_epi16(_mm256_loadu_si256((const __m256i *)gate),
                                      _mm256_setzero_si256()));
        if (t->stream)
            _mm256_stream_si256((__m256i *)to, v);
        else
            _mm256_storeu_si256((__m256i *)to, v);
#endif
        gate = gate ? gate + t->y_step : NULL;
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

/* Where sums are to be read or written, and bytes from row to row. */
struct place {
    float *at;
    size_t step;
};

/* Whether all rows of a group's sums may be written where they belong, */
static inline bool is_whole(const struct conv_tile *t, int g)
{
    return !t->half && t->group[g].count == t->positions
           && t->group[g].column + t->positions <= t->columns;
}

/* n positions of a group from one on, in a line of the output. */
struct run {
    float *y;
    int from, column, n;
};

/* The one after it; the first has no positions. */
static inline bool next_run(const struct conv_tile *t, int g, struct run *r)
{
    const int count = t->group[g].count;
    r->y += (ptrdiff_t)r->n * (ptrdiff_t)t->y_step;
    r->from += r->n;
    r->column += r->n;
    if (r->column >= t->columns) {
        r->from += t->pitch - r->column;
        r->y +=
            (ptrdiff_t)t->y_line - (ptrdiff_t)r->column * (ptrdiff_t)t->y_step;
        r->column = 0;
    }
    r->n = t->columns - r->column;
    r->n = r->n < count - r->from ? r->n : count - r->from;
    return r->n > 0;
}

static inline float *y_of(const struct conv_tile *t, int g, int k)
{
    return t->group[g].y + (size_t)k * t->y_block;
}

/* Of y, or NULL. */
static inline const float *gate_of(const struct conv_tile *t, const float *y)
{
    return t->gate ? t->gate + (y - t->dx) : NULL;
}

/* Asks for a gate, which is read when all products are added. */
static inline void ask_for_gate(const struct conv_tile *t, int g, int k)
{
#ifndef CONV_AMX_STAND_IN
    const float *gate = gate_of(t, y_of(t, g, k));
    const int floats = gate ? t->positions * (int)t->y_step : 0;
    for (int i = 0; i < floats; i += CONV_BLOCK)
        _mm_prefetch((const char *)(gate + i), _MM_HINT_T0);
#else
    (void)t, (void)g, (void)k;
#endif
}

static inline struct place begin_of(const struct conv_tile *t, int g, int k,
                                    float *kept)
{
    struct run r = {y_of(t, g, k), 0, t->group[g].column, 0};
    if (is_whole(t, g))
        return (struct place){r.y, t->y_step * sizeof(float)};
    memset(kept, 0, SQUARE * sizeof(float));
    while (next_run(t, g, &r)) {
        float *to = kept + r.from * CONV_BLOCK;
        if (t->half)
            get_half(r.y, t->y_step, to, r.n);
        else
            for (int i = 0; i < r.n; i++)
                memcpy(to + i * CONV_BLOCK, r.y + (size_t)i * t->y_step, LINE);
    }
    SETTLE(kept);
    return (struct place){kept, LINE};
}

/* and as they are. */
static inline bool is_plain(const struct conv_tile *t, int g)
{
    return is_whole(t, g) && !t->stream && !t->relu && !t->gate;
}

static inline struct place end_of(const struct conv_tile *t, int g, int k,
                                  float *kept)
{
    return is_plain(t, g)
               ? (struct place){y_of(t, g, k), t->y_step * sizeof(float)}
               : (struct place){kept, LINE};
}

/* From there to where they belong. */
static inline void put(const struct conv_tile *t, int g, int k,
                       const float *kept)
{
    struct run r = {y_of(t, g, k), 0, t->group[g].column, 0};
    if (is_plain(t, g))
        return;
    while (next_run(t, g, &r))
        (t->half ? put_half : put_whole)(t, r.y, kept + r.from * CONV_BLOCK,
                                         r.n, gate_of(t, r.y));
}

#define BIAS(i, g, k) _tile_loadd(i, t->bias + (k)*CONV_BLOCK, 0);
#define BEGIN(i, g, k)                                                         \
    const struct place begin##i = begin_of(t, g, k, kept[i]);                  \
    _tile_loadd(i, begin##i.at, begin##i.step);
#define ASK(i, g, k) ask_for_gate(t, g, k);
#define END(i, g, k)                                                           \
    const struct place end##i = end_of(t, g, k, kept[i]);                      \
    _tile_stored(i, end##i.at, end##i.step);
#define PUT(i, g, k) put(t, g, k, kept[i]);

/* Sums += products of up to three of X and two of BLOCK, in an order that loads
 * a block twice and X once. PRODUCT has the operands in the order that it
 * wants. */
#define MULTIPLY(X, BLOCK, row, PRODUCT)                                       \
    _tile_loadd(7, X(0), LINE);                                                \
    _tile_loadd(6, BLOCK(0), row);                                             \
    PRODUCT(0);                                                                \
    if (nk > 1) {                                                              \
        _tile_loadd(6, BLOCK(1), row);                                         \
        PRODUCT(1);                                                            \
    }                                                                          \
    if (ng > 1) {                                                              \
        _tile_loadd(7, X(1), LINE);                                            \
        if (nk > 1) {                                                          \
            PRODUCT(3);                                                        \
            _tile_loadd(6, BLOCK(0), row);                                     \
        }                                                                      \
        PRODUCT(2);                                                            \
    }                                                                          \
    if (ng > 2) {                                                              \
        _tile_loadd(7, X(2), LINE);                                            \
        PRODUCT(4);                                                            \
        if (nk > 1) {                                                          \
            _tile_loadd(6, BLOCK(1), row);                                     \
            PRODUCT(5);                                                        \
        }                                                                      \
    }

#define X_OF_GROUP(g) (t->group[g].x + at)
#define WEIGHTS_OF(k) (w + (k)*CONV_BLOCK)
#define BY_GROUP(i)   _tile_dpbf16ps(i, 7, 6)

static inline void tile_of(const struct conv_tile *t, const int ng,
                           const int nk)
{
    const float *w = t->w;
    const int rows = ROWS * nk * CONV_BLOCK;
    const size_t row = (size_t)nk * LINE;
    _Alignas(LINE) float kept[SUMS][SQUARE];
    if (t->bias) {
        EACH_SUM(BIAS)
    } else {
        EACH_SUM(BEGIN)
    }
    EACH_SUM(ASK)
    for (int b = 0; b < t->nblocks; b++) {
        w += t->before * rows;
        for (int i = 0; i < t->ntaps; i++, w += rows) {
            const ptrdiff_t at =
                (ptrdiff_t)((size_t)b * t->x_block) + t->tap[i];
            MULTIPLY(X_OF_GROUP, WEIGHTS_OF, row, BY_GROUP)
        }
        w += t->after * rows;
    }
    EACH_SUM(END)
    EACH_SUM(PUT)
}

static void tile(const struct conv_tile *t, int nk)
{
    configure(t->positions);
    if (t->groups > 2)
        nk > 1 ? tile_of(t, 3, 2) : tile_of(t, 3, 1);
    else if (t->groups > 1)
        nk > 1 ? tile_of(t, 2, 2) : tile_of(t, 2, 1);
    else
        nk > 1 ? tile_of(t, 1, 2) : tile_of(t, 1, 1);
}

#define BEGIN_SUM(i, g, k)                                                     \
    if (s->add)                                                                \
        _tile_loadd(i, s->dw[g] + (k)*s->dw_output, LINE);                     \
    else                                                                       \
        _tile_zero(i);
#define END_SUM(i, g, k) _tile_stored(i, s->dw[g] + (k)*s->dw_output, LINE);

#define X_OF_SHEET(g) (s->x[g] + at)
#define DY_OF(k)      (dy + (k)*s->dy_block)
#define BY_BLOCK(i)   _tile_dpbf16ps(i, 6, 7)

static inline void sum_of(const struct conv_wide_sum *s, const int ng,
                          const int nk)
{
    EACH_SUM(BEGIN_SUM)
    for (int i = 0; i < s->images; i++) {
        const float *dy = s->dy + (size_t)i * s->dy_image;
        size_t at = (size_t)i * s->x_image;
        for (int j = 0; j < s->steps; j++, dy += SQUARE, at += SQUARE) {
            MULTIPLY(X_OF_SHEET, DY_OF, LINE, BY_BLOCK)
        }
    }
    EACH_SUM(END_SUM)
}

static void sum(const struct conv_wide_sum *s)
{
    configure(ROWS);
    if (s->nx > 2)
        s->nk > 1 ? sum_of(s, 3, 2) : sum_of(s, 3, 1);
    else if (s->nx > 1)
        s->nk > 1 ? sum_of(s, 2, 2) : sum_of(s, 2, 1);
    else
        s->nk > 1 ? sum_of(s, 1, 2) : sum_of(s, 1, 1);
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
    configure(ROWS);
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
