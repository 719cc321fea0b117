/* SPDX-License-Identifier: MIT */
/* Sums with AVX2 and AVX-512.
 *
 * Each function is compiled for its instruction set alone and chosen at run
 * time, so that one library serves every x86-64. VCVTNEPS2BF16 is not used: it
 * takes subnormal numbers for zero, and the results must be the scalar ones.
 */
#include "op/kernels.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>

#define AVX2   __attribute__((target("avx2,f16c")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,f16c")))

/* clang 14 does not know "f16c" in __builtin_cpu_supports(). */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f")
           && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl");
}

/* AVX2: whole vectors here, the rest in the scalar kernel. */

AVX2 void sum_f32_avx2(void *dst, const void *a, const void *b, size_t n)
{
    const float *const x = a, *const y = b;
    float *const z = dst;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 lo =
            _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i));
        const __m256 hi = _mm256_add_ps(_mm256_loadu_ps(x + i + 8),
                                        _mm256_loadu_ps(y + i + 8));
        _mm256_storeu_ps(z + i, lo);
        _mm256_storeu_ps(z + i + 8, hi);
    }
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

AVX2 void sum_f64_avx2(void *dst, const void *a, const void *b, size_t n)
{
    const double *const x = a, *const y = b;
    double *const z = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256d lo =
            _mm256_add_pd(_mm256_loadu_pd(x + i), _mm256_loadu_pd(y + i));
        const __m256d hi = _mm256_add_pd(_mm256_loadu_pd(x + i + 4),
                                         _mm256_loadu_pd(y + i + 4));
        _mm256_storeu_pd(z + i, lo);
        _mm256_storeu_pd(z + i + 4, hi);
    }
    for (; i < n; i++)
        z[i] = x[i] + y[i];
}

AVX2 static inline __m256 load_bf16_avx2(const uint16_t *x)
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)x);
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* Rounds to nearest even. A NaN needs no care: as a sum of bf16 numbers it has
 * zeros where the rounding adds. */
AVX2 static inline void store_bf16_avx2(uint16_t *z, __m256 x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i words = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
    _mm_storeu_si128((__m128i *)z, _mm256_castsi256_si128(packed));
}

AVX2 void sum_bf16_avx2(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        store_bf16_avx2(
            z + i, _mm256_add_ps(load_bf16_avx2(x + i), load_bf16_avx2(y + i)));
    sum_bf16_scalar(z + i, x + i, y + i, n - i);
}

AVX2 void sum_f16_avx2(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 left =
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i)));
        const __m256 right =
            _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(y + i)));
        _mm_storeu_si128((__m128i *)(z + i),
                         _mm256_cvtps_ph(_mm256_add_ps(left, right),
                                         _MM_FROUND_TO_NEAREST_INT));
    }
    sum_f16_scalar(z + i, x + i, y + i, n - i);
}

/* AVX-512: the rest is a vector whose mask is not full. */

AVX512 static inline __mmask16 first(size_t n)
{
    return n < 16 ? (__mmask16)((1u << n) - 1) : (__mmask16)0xffff;
}

AVX512 void sum_f32_avx512(void *dst, const void *a, const void *b, size_t n)
{
    const float *const x = a, *const y = b;
    float *const z = dst;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m512 lo =
            _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i));
        const __m512 hi = _mm512_add_ps(_mm512_loadu_ps(x + i + 16),
                                        _mm512_loadu_ps(y + i + 16));
        _mm512_storeu_ps(z + i, lo);
        _mm512_storeu_ps(z + i + 16, hi);
    }
    for (; i < n; i += 16) {
        const __mmask16 m = first(n - i);
        _mm512_mask_storeu_ps(z + i, m,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(m, x + i),
                                            _mm512_maskz_loadu_ps(m, y + i)));
    }
}

AVX512 void sum_f64_avx512(void *dst, const void *a, const void *b, size_t n)
{
    const double *const x = a, *const y = b;
    double *const z = dst;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512d lo =
            _mm512_add_pd(_mm512_loadu_pd(x + i), _mm512_loadu_pd(y + i));
        const __m512d hi = _mm512_add_pd(_mm512_loadu_pd(x + i + 8),
                                         _mm512_loadu_pd(y + i + 8));
        _mm512_storeu_pd(z + i, lo);
        _mm512_storeu_pd(z + i + 8, hi);
    }
    for (; i < n; i += 8) {
        const __mmask8 m = (__mmask8)first(n - i);
        _mm512_mask_storeu_pd(z + i, m,
                              _mm512_add_pd(_mm512_maskz_loadu_pd(m, x + i),
                                            _mm512_maskz_loadu_pd(m, y + i)));
    }
}

AVX512 static inline __m512 load_bf16_avx512(__mmask16 m, const uint16_t *x)
{
    const __m256i halves = _mm256_maskz_loadu_epi16(m, x);
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* See store_bf16_avx2(). */
AVX512 static inline void store_bf16_avx512(__mmask16 m, uint16_t *z, __m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd =
        _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i words = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    _mm256_mask_storeu_epi16(z, m, _mm512_cvtepi32_epi16(words));
}

AVX512 void sum_bf16_avx512(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 m = first(n - i);
        store_bf16_avx512(m, z + i,
                          _mm512_add_ps(load_bf16_avx512(m, x + i),
                                        load_bf16_avx512(m, y + i)));
    }
}

AVX512 void sum_f16_avx512(void *dst, const void *a, const void *b, size_t n)
{
    const uint16_t *const x = a, *const y = b;
    uint16_t *const z = dst;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 m = first(n - i);
        const __m512 left = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, x + i));
        const __m512 right =
            _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(m, y + i));
        _mm256_mask_storeu_epi16(z + i, m,
                                 _mm512_cvtps_ph(_mm512_add_ps(left, right),
                                                 _MM_FROUND_TO_NEAREST_INT));
    }
}

#endif
