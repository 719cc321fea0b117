/* SPDX-License-Identifier: MIT */
/* Rounding to bf16 for one instruction set, CONV_ISA. */
#include "kernels/conv_tile.h"

#include <string.h>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)

#if defined(__AVX512BF16__)

static void row(const float *x, float *to, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(to + i / 2, (__m512i)_mm512_cvtne2ps_pbh(
                                            _mm512_loadu_ps(x + i + 16),
                                            _mm512_loadu_ps(x + i)));
    if (i < n)
        _mm256_storeu_si256(
            (__m256i *)(to + i / 2),
            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
}

static void join(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n * 16; i += 16)
        _mm512_storeu_si512(
            to + i, (__m512i)_mm512_cvtne2ps_pbh(b ? _mm512_loadu_ps(b + i)
                                                   : _mm512_setzero_ps(),
                                                 _mm512_loadu_ps(a + i)));
}

/* Of two times 16 numbers: one of the first, one of the others and so on. */
static inline __m512i turns(void)
{
    return _mm512_setr_epi32(
        16 << 16 | 0, 17 << 16 | 1, 18 << 16 | 2, 19 << 16 | 3, 20 << 16 | 4,
        21 << 16 | 5, 22 << 16 | 6, 23 << 16 | 7, 24 << 16 | 8, 25 << 16 | 9,
        26 << 16 | 10, 27 << 16 | 11, 28 << 16 | 12, 29 << 16 | 13,
        30 << 16 | 14, 31 << 16 | 15);
}

static inline void pair(__m512 a, __m512 b, float *to)
{
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(
                                turns(), (__m512i)_mm512_cvtne2ps_pbh(b, a)));
}

static void neighbours(const float *x, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++, x += 32, to += 16)
        pair(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), to);
}

static void half_neighbours(const float *x, float *to, size_t n)
{
    for (size_t i = 0; i < n * 16; i += 16)
        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(
                                        turns(), _mm512_loadu_si512(x + i)));
}

static void square(const float *a, const float *b, size_t step, float *to)
{
    for (int i = 0; i < 16; i++, a += step, b += step, to += 16)
        pair(_mm512_loadu_ps(a), _mm512_loadu_ps(b), to);
}

static void pairs(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        pair(_mm512_loadu_ps(a + i),
             b ? _mm512_loadu_ps(b + i) : _mm512_setzero_ps(), to + i);
}

#else

/* In the upper half; the lower one is anything. */
static inline uint32_t rounded(float x)
{
    const uint32_t quiet = 1U << 22;
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return x != x ? bits | quiet : bits + 0x7fff + (bits >> 16 & 1);
}

static inline void put(float first, float second, float *to)
{
    const uint32_t pair = rounded(first) >> 16 | (rounded(second) & 0xffff0000);
    memcpy(to, &pair, sizeof(pair));
}

static void row(const float *x, float *to, size_t n)
{
    for (size_t i = 0; i < n; i += 2)
        put(x[i], x[i + 1], to + i / 2);
}

static void join(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++, a += CONV_BLOCK, to += CONV_BLOCK) {
        row(a, to, CONV_BLOCK);
        if (b)
            row(b + i * CONV_BLOCK, to + CONV_BLOCK / 2, CONV_BLOCK);
        else
            memset(to + CONV_BLOCK / 2, 0, CONV_BLOCK / 2 * sizeof(float));
    }
}

static void pairs(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(a[i], b ? b[i] : 0, to + i);
}

static void square(const float *a, const float *b, size_t step, float *to)
{
    for (int i = 0; i < CONV_BLOCK; i++, a += step, b += step, to += CONV_BLOCK)
        pairs(a, b, to, CONV_BLOCK);
}

static void half_neighbours(const float *x, float *to, size_t n)
{
    for (; n > 0; n--, x += CONV_BLOCK, to += CONV_BLOCK) {
        uint16_t from[2][CONV_BLOCK], pairs[CONV_BLOCK][2];
        memcpy(from, x, sizeof(from));
        for (int i = 0; i < CONV_BLOCK; i++) {
            pairs[i][0] = from[0][i];
            pairs[i][1] = from[1][i];
        }
        memcpy(to, pairs, sizeof(pairs));
    }
}

static void neighbours(const float *x, float *to, size_t n)
{
    for (; n > 0; n--, x += 2 * CONV_BLOCK, to += CONV_BLOCK)
        pairs(x, x + CONV_BLOCK, to, CONV_BLOCK);
}

#endif

const struct conv_round NAME(conv_round_, CONV_ISA) = {
    row, join, neighbours, half_neighbours, square, pairs};
