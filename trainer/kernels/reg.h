/* SPDX-License-Identifier: MIT */
/* A register of CONV_LANES floats, for files compiled for each row of
 * isas.def, and the name of what such a file gives. */
#ifndef TRAINER_KERNELS_REG_H
#define TRAINER_KERNELS_REG_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "tensor.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define INLINE     static inline __attribute__((always_inline))

/* A function with code of its own for each case of its constant arguments. With
 * sanitizers' checks in it that takes minutes to compile, so there the cases
 * share it. */
#ifdef KERNELS_SHARE
#define PER_CASE static
#define UNROLL(times)
#else
#define PER_CASE      INLINE
#define PRAGMA(words) _Pragma(#words)
#define UNROLL(times) PRAGMA(GCC unroll times)
#endif

enum { LANES = CONV_LANES, PARTS = BLOCK / LANES };

typedef float reg __attribute__((vector_size(4 * CONV_LANES)));
/* As floats lie in memory. */
typedef float vec
    __attribute__((vector_size(4 * CONV_LANES), aligned(4), may_alias));
typedef int mask __attribute__((vector_size(4 * CONV_LANES)));

INLINE reg load(const float *x)
{
    return *(const vec *)x;
}

INLINE void store(float *x, reg v)
{
    *(vec *)x = v;
}

/* bf16: the upper halves of floats. */
typedef uint16_t half_vec
    __attribute__((vector_size(2 * CONV_LANES), aligned(2), may_alias));
typedef uint32_t word_vec __attribute__((vector_size(4 * CONV_LANES)));

/* In one instruction, where gcc 12 has four. */
INLINE word_vec words_of(half_vec h)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    return (word_vec)_mm512_cvtepu16_epi32((__m256i)h);
#elif defined(__AVX2__) && CONV_LANES == 8
    return (word_vec)_mm256_cvtepu16_epi32((__m128i)h);
#else
    return __builtin_convertvector(h, word_vec);
#endif
}

/* Those from number i on. */
INLINE reg load_from(const float *x, ptrdiff_t i, bool half)
{
    if (!half)
        return load(x + i);
    const half_vec h = *(const half_vec *)((const uint16_t *)x + i);
    return (reg)(words_of(h) << 16);
}

/* To nearest even; what is no number stays none. */
INLINE half_vec rounded(reg v)
{
#if defined(__AVX512BF16__) && CONV_LANES == 16
    return (half_vec)_mm512_cvtneps_pbh((__m512)v);
#else
    const word_vec bits = (word_vec)v, none = (word_vec)(v != v);
    const word_vec near = bits + 0x7fff + (bits >> 16 & 1);
    const word_vec quiet = bits | 1U << 22;
    return __builtin_convertvector(((quiet & none) | (near & ~none)) >> 16,
                                   half_vec);
#endif
}

/* The other way round. */
INLINE void store_from(float *x, ptrdiff_t i, reg v, bool half)
{
    if (half)
        *(half_vec *)((uint16_t *)x + i) = rounded(v);
    else
        store(x + i, v);
}

/* a where m is set, else b. */
INLINE reg choose(mask m, reg a, reg b)
{
    return (reg)(((mask)a & m) | ((mask)b & ~m));
}

/* v, but 0 where x is not above 0. */
INLINE reg where_above(reg x, reg v)
{
#if defined(__AVX512F__) && CONV_LANES == 16
    const __mmask16 m =
        _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_GT_OQ);
    return (reg)_mm512_maskz_mov_ps(m, (__m512)v);
#else
    return choose(x > (reg){0}, v, (reg){0});
#endif
}

/* A position's 16 channels. */
struct row {
    reg part[PARTS];
};

INLINE struct row row_of(const float *x)
{
    struct row r;
#pragma GCC unroll 4
    for (int k = 0; k < PARTS; k++)
        r.part[k] = load(x + k * LANES);
    return r;
}

/* Positions whose sums do not wait for each other. */
enum { ROWS_AT_ONCE = PARTS < 4 ? 4 / PARTS : 1 };

/* sums += so many rows. */
INLINE void add_rows(double *sums, const struct row *rows, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < BLOCK; k++)
            sums[k] += (double)rows[i].part[k / LANES][k % LANES];
}

INLINE int least(int a, int b)
{
    return a < b ? a : b;
}

#endif
