/* SPDX-License-Identifier: MIT */
/* Vectors of VECTOR_BYTES, whose elements a cast chooses.
 *
 * The compiler's vectors, so that one source serves every instruction set: it
 * maps them to the registers that the flags of the file allow, or to several
 * scalar instructions.
 */
#ifndef OP_VECTOR_H
#define OP_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define VECTOR(T, bytes) typedef T __attribute__((vector_size(bytes)))

VECTOR(uint8_t, VECTOR_BYTES) vec;
VECTOR(int8_t, VECTOR_BYTES) vec_i8;
VECTOR(uint8_t, VECTOR_BYTES) vec_u8;
VECTOR(int16_t, VECTOR_BYTES) vec_i16;
VECTOR(uint16_t, VECTOR_BYTES) vec_u16;
VECTOR(int32_t, VECTOR_BYTES) vec_i32;
VECTOR(uint32_t, VECTOR_BYTES) vec_u32;
VECTOR(int64_t, VECTOR_BYTES) vec_i64;
VECTOR(uint64_t, VECTOR_BYTES) vec_u64;
VECTOR(float, VECTOR_BYTES) vec_f32;
VECTOR(double, VECTOR_BYTES) vec_f64;

/* As many elements as there are f32 in a vector, but shorter ones. */
VECTOR(uint16_t, VECTOR_BYTES / 2) half_u16;

/* The AVX-512 masks: any part of a vector is loaded and stored at once. Other
 * instruction sets take parts of one word or of one element. */
enum { WORD = 8, MASKED = VECTOR_BYTES == 64 };

/* A vector has so many bytes in memory as whole says, a constant. The next two
 * take the first bytes of them; without masks it is best if that is known, and
 * a word at most. */

#if VECTOR_BYTES == 64
static inline void load_part(void *x, size_t whole, const char *p, size_t bytes)
{
    const __mmask64 mask = _cvtu64_mask64(~(uint64_t)0 >> (64 - bytes));
    if (whole == 64) {
        const __m512i part = _mm512_maskz_loadu_epi8(mask, p);
        memcpy(x, &part, 64);
    } else {
        const __m256i part = _mm256_maskz_loadu_epi8((__mmask32)mask, p);
        memcpy(x, &part, 32);
    }
}

static inline void store_part(char *p, const void *x, size_t whole,
                              size_t bytes)
{
    const __mmask64 mask = _cvtu64_mask64(~(uint64_t)0 >> (64 - bytes));
    if (whole == 64) {
        __m512i part;
        memcpy(&part, x, 64);
        _mm512_mask_storeu_epi8(p, mask, part);
    } else {
        __m256i part;
        memcpy(&part, x, 32);
        _mm256_mask_storeu_epi8(p, (__mmask32)mask, part);
    }
}
#else
/* By way of words, which compilers keep out of memory. */
VECTOR(uint64_t, 16) two_words;
VECTOR(uint64_t, 32) four_words;

static inline void load_part(void *x, size_t whole, const char *p, size_t bytes)
{
    uint64_t word = 0;
    if (bytes > WORD) {
        unsigned char zeros[VECTOR_BYTES] = {0};
        memcpy(zeros, p, bytes);
        memcpy(x, zeros, whole);
        return;
    }
    memcpy(&word, p, bytes);
    if (whole == 32)
        memcpy(x, &(four_words){word}, 32);
    else if (whole == 16)
        memcpy(x, &(two_words){word}, 16);
    else
        memcpy(x, &word, whole);
}

static inline void store_part(char *p, const void *x, size_t whole,
                              size_t bytes)
{
    two_words words = {0};
    if (bytes > WORD) {
        memcpy(p, x, bytes);
        return;
    }
    memcpy(&words, x, whole < 16 ? whole : 16);
    const uint64_t word = words[0];
    memcpy(p, &word, bytes);
}
#endif

/* Past the caches, where there is such a store. p is aligned to whole. */
static inline void stream_bytes(char *p, const void *x, size_t whole)
{
#if VECTOR_BYTES == 64
    if (whole == 64) {
        __m512i bits;
        memcpy(&bits, x, 64);
        _mm512_stream_si512((__m512i *)p, bits);
        return;
    }
#endif
#if defined(__AVX__)
    if (whole == 32) {
        __m256i bits;
        memcpy(&bits, x, 32);
        _mm256_stream_si256((__m256i *)p, bits);
        return;
    }
#endif
#if defined(__x86_64__)
    if (whole == 16) {
        __m128i bits;
        memcpy(&bits, x, 16);
        _mm_stream_si128((__m128i *)p, bits);
        return;
    }
    if (whole == 8) {
        long long bits;
        memcpy(&bits, x, 8);
        _mm_stream_si64((long long *)p, bits);
        return;
    }
#endif
    memcpy(p, x, whole);
}

/* Orders the stores past the caches before every later store. */
static inline void stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
