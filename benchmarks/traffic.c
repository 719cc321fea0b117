/* SPDX-License-Identifier: MIT */
/* Exclusive or costs the least of all operators on any type, and is a copy for
 * a single input. Four lines at a time where there are as many, so that the
 * loops over inputs and outputs cost little beside the loads and stores. */
#include "traffic.h"

#include <stdint.h>
#include <string.h>

enum { FOUR = 4 * TRAFFIC_LINE };

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static void
wide_512(char *const *dst, int ndst, const char *const *src, int nsrc,
         size_t bytes, bool stream)
{
    size_t i = 0;
    for (; i + FOUR <= bytes; i += FOUR) {
        __m512i a = _mm512_load_si512(src[0] + i);
        __m512i b = _mm512_load_si512(src[0] + i + 64);
        __m512i c = _mm512_load_si512(src[0] + i + 128);
        __m512i d = _mm512_load_si512(src[0] + i + 192);
        for (int k = 1; k < nsrc; k++) {
            const char *const s = src[k] + i;
            a = _mm512_xor_si512(a, _mm512_load_si512(s));
            b = _mm512_xor_si512(b, _mm512_load_si512(s + 64));
            c = _mm512_xor_si512(c, _mm512_load_si512(s + 128));
            d = _mm512_xor_si512(d, _mm512_load_si512(s + 192));
        }
        for (int k = 0; k < ndst; k++) {
            char *const t = dst[k] + i;
            if (stream) {
                _mm512_stream_si512((void *)t, a);
                _mm512_stream_si512((void *)(t + 64), b);
                _mm512_stream_si512((void *)(t + 128), c);
                _mm512_stream_si512((void *)(t + 192), d);
            } else {
                _mm512_store_si512(t, a);
                _mm512_store_si512(t + 64, b);
                _mm512_store_si512(t + 128, c);
                _mm512_store_si512(t + 192, d);
            }
        }
    }
    for (; i < bytes; i += TRAFFIC_LINE) {
        __m512i a = _mm512_load_si512(src[0] + i);
        for (int k = 1; k < nsrc; k++)
            a = _mm512_xor_si512(a, _mm512_load_si512(src[k] + i));
        for (int k = 0; k < ndst; k++)
            if (stream)
                _mm512_stream_si512((void *)(dst[k] + i), a);
            else
                _mm512_store_si512(dst[k] + i, a);
    }
}

/* A line at a time is two vectors here. */
__attribute__((target("avx2"))) static void wide_256(char *const *dst, int ndst,
                                                     const char *const *src,
                                                     int nsrc, size_t bytes,
                                                     bool stream)
{
    for (size_t i = 0; i < bytes; i += TRAFFIC_LINE) {
        const __m256i *s = (const void *)(src[0] + i);
        __m256i a = _mm256_load_si256(s), b = _mm256_load_si256(s + 1);
        for (int k = 1; k < nsrc; k++) {
            s = (const void *)(src[k] + i);
            a = _mm256_xor_si256(a, _mm256_load_si256(s));
            b = _mm256_xor_si256(b, _mm256_load_si256(s + 1));
        }
        for (int k = 0; k < ndst; k++) {
            __m256i *const t = (void *)(dst[k] + i);
            if (stream) {
                _mm256_stream_si256(t, a);
                _mm256_stream_si256(t + 1, b);
            } else {
                _mm256_store_si256(t, a);
                _mm256_store_si256(t + 1, b);
            }
        }
    }
}

static void wide_128(char *const *dst, int ndst, const char *const *src,
                     int nsrc, size_t bytes, bool stream)
{
    for (size_t i = 0; i < bytes; i += sizeof(__m128i)) {
        __m128i a = _mm_load_si128((const void *)(src[0] + i));
        for (int k = 1; k < nsrc; k++)
            a = _mm_xor_si128(a, _mm_load_si128((const void *)(src[k] + i)));
        for (int k = 0; k < ndst; k++)
            if (stream)
                _mm_stream_si128((void *)(dst[k] + i), a);
            else
                _mm_store_si128((void *)(dst[k] + i), a);
    }
}

void traffic(char *const *dst, int ndst, const char *const *src, int nsrc,
             size_t bytes, bool stream)
{
    if (__builtin_cpu_supports("avx512f"))
        wide_512(dst, ndst, src, nsrc, bytes, stream);
    else if (__builtin_cpu_supports("avx2"))
        wide_256(dst, ndst, src, nsrc, bytes, stream);
    else
        wide_128(dst, ndst, src, nsrc, bytes, stream);
    if (stream)
        _mm_sfence();
}

#else

/* The compiler makes vectors of this where there are any. */
void traffic(char *const *dst, int ndst, const char *const *src, int nsrc,
             size_t bytes, bool stream)
{
    enum { WORDS = TRAFFIC_LINE / sizeof(uint64_t) };
    (void)stream;
    for (size_t i = 0; i < bytes; i += TRAFFIC_LINE) {
        uint64_t line[WORDS];
        memcpy(line, src[0] + i, sizeof line);
        for (int k = 1; k < nsrc; k++) {
            uint64_t more[WORDS];
            memcpy(more, src[k] + i, sizeof more);
            for (int w = 0; w < WORDS; w++)
                line[w] ^= more[w];
        }
        for (int k = 0; k < ndst; k++)
            memcpy(dst[k] + i, line, sizeof line);
    }
}

#endif
