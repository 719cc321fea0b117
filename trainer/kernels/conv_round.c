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

static void pairs(const float *a, const float *b, float *to, size_t n)
{
    /* Those of a are the first 16: one of them, one of b and so on. */
    const __m512i turns = _mm512_setr_epi32(
        16 << 16 | 0, 17 << 16 | 1, 18 << 16 | 2, 19 << 16 | 3, 20 << 16 | 4,
        21 << 16 | 5, 22 << 16 | 6, 23 << 16 | 7, 24 << 16 | 8, 25 << 16 | 9,
        26 << 16 | 10, 27 << 16 | 11, 28 << 16 | 12, 29 << 16 | 13,
        30 << 16 | 14, 31 << 16 | 15);
    for (size_t i = 0; i < n; i += 16) {
        const __m512 second = b ? _mm512_loadu_ps(b + i) : _mm512_setzero_ps();
        const __m512i both =
            (__m512i)_mm512_cvtne2ps_pbh(second, _mm512_loadu_ps(a + i));
        _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(turns, both));
    }
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

static void pairs(const float *a, const float *b, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(a[i], b ? b[i] : 0, to + i);
}

#endif

const struct conv_round NAME(conv_round_, CONV_ISA) = {row, pairs};
