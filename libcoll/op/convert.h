/* SPDX-License-Identifier: MIT */
/* f16, bf16 and the two f8 formats to and from vectors of f32.
 *
 * Widening is exact. Narrowing rounds to nearest even; too large becomes
 * infinity, and NaN in f8e4m3, which has no infinity. A NaN stays one, of the
 * same sign.
 *
 * f8e4m3 follows OCP 8-bit Floating Point (1.0, 2023) in its mode without
 * saturation, as the casts of PyTorch (float8_e4m3fn) and ml_dtypes do: what
 * rounds to more than 448 becomes NaN, so that a sum that left the range is
 * seen instead of looking like a large number.
 */
#ifndef OP_CONVERT_H
#define OP_CONVERT_H

#include "op/vector.h"

/* A sign, then exponent, then mantissa. Codes are without the sign. */
struct format {
    int exponent_bits, mantissa_bits;
    int largest;  /* the largest finite code */
    int overflow; /* what lies above becomes this */
    bool has_infinity;
};

static const struct format format_f16 = {5, 10, 0x7bff, 0x7c00, true};
static const struct format format_f8e5m2 = {5, 2, 0x7b, 0x7c, true};
static const struct format format_f8e4m3 = {4, 3, 0x7e, 0x7f, false};

/* 2 to the power e, which must be a normal f32. */
static inline float power_of_two(int e)
{
    const uint32_t bits = (uint32_t)(127 + e) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int bias_of(const struct format *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

/* Where the mask is -1, yes; where it is 0, no. */
static inline vec_u32 pick(vec_i32 mask, vec_u32 yes, vec_u32 no)
{
    return (yes & (vec_u32)mask) | (no & ~(vec_u32)mask);
}

static inline vec_f32 widen(const struct format *f, vec_u32 bits)
{
    const int shift = 23 - f->mantissa_bits, bias = bias_of(f);
    const int width = f->exponent_bits + f->mantissa_bits;
    const vec_u32 code = bits & ((1u << width) - 1);
    const vec_u32 sign = bits >> width << 31;
    const vec_i32 number = (vec_i32)code; /* codes are small: no sign */

    const vec_u32 normal = (code << shift) + ((uint32_t)(127 - bias) << 23);
    /* Infinity has no mantissa, unlike a NaN. */
    const vec_u32 special = (code << shift) | 0x7f800000;
    const vec_f32 tiny = __builtin_convertvector(number, vec_f32)
                         * power_of_two(1 - bias - f->mantissa_bits);
    const vec_u32 finite =
        pick(number < (1 << f->mantissa_bits), (vec_u32)tiny, normal);
    return (vec_f32)(sign | pick(number > f->largest, special, finite));
}

/* The code of a NaN. */
static inline vec_u32 narrow_nan(const struct format *f, vec_u32 bits)
{
    const uint32_t overflow = (uint32_t)f->overflow;
    if (!f->has_infinity)
        return (bits & 0) | overflow;
    const int shift = 23 - f->mantissa_bits;
    const uint32_t quiet = 1u << (f->mantissa_bits - 1);
    return (bits & 0x7fffff) >> shift | (overflow | quiet);
}

static inline vec_u32 narrow(const struct format *f, vec_f32 x)
{
    const int shift = 23 - f->mantissa_bits, bias = bias_of(f);
    const int32_t rebias = (127 - bias) << 23;
    const vec_u32 bits = (vec_u32)x & 0x7fffffff;
    const vec_u32 sign = (vec_u32)x >> 31;
    const vec_i32 number = (vec_i32)bits;

    const vec_u32 based = bits - (uint32_t)rebias;
    const vec_u32 odd = (based >> shift) & 1;
    const vec_u32 rounded =
        (based + (odd + ((1u << (shift - 1)) - 1))) >> shift;
    const vec_u32 normal = pick((vec_i32)rounded > f->largest,
                                (bits & 0) | (uint32_t)f->overflow, rounded);
    /* Next to this number f32 has the spacing of the format's subnormal
     * numbers, so that the addition rounds, and to even. */
    const vec_f32 magic =
        (vec_f32)(bits & 0) + power_of_two(24 - bias - f->mantissa_bits);
    const vec_u32 tiny = (vec_u32)((vec_f32)bits + magic) - (vec_u32)magic;
    const vec_u32 code = pick(number < rebias + (1 << 23), tiny, normal);
    return sign << (f->exponent_bits + f->mantissa_bits)
           | pick(number > 0x7f800000, narrow_nan(f, bits), code);
}

/* The lower or the upper number of each word: so none changes its place. */
static inline vec widen_bf16(vec x, int upper)
{
    const vec_u32 words = (vec_u32)x;
    return (vec)(upper ? words & 0xffff0000 : words << 16);
}

/* The upper half is the number. A NaN needs no care: as it comes from bf16
 * numbers, it has zeros where the rounding adds. VCVTNEPS2BF16 takes subnormal
 * numbers for zero: not used. */
static inline vec_u32 round_bf16(vec x)
{
    const vec_u32 bits = (vec_u32)x;
    return bits + (((bits >> 16) & 1) + 0x7fff);
}

static inline vec narrow_bf16(const vec *parts)
{
    return (vec)(round_bf16(parts[0]) >> 16
                 | (round_bf16(parts[1]) & 0xffff0000));
}

/* Every instruction set but scalar has f16 conversions; they round as told. */
static inline vec widen_f16(half_u16 x)
{
#if VECTOR_BYTES == 64
    return (vec)_mm512_cvtph_ps((__m256i)x);
#elif VECTOR_BYTES == 32
    return (vec)_mm256_cvtph_ps((__m128i)x);
#elif VECTOR_BYTES == 16 && defined(__aarch64__)
    return (vec)vcvt_f32_f16((float16x4_t)x);
#else
    return (vec)widen(&format_f16, __builtin_convertvector(x, vec_u32));
#endif
}

static inline half_u16 narrow_f16(vec x)
{
#if VECTOR_BYTES == 64
    return (half_u16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif VECTOR_BYTES == 32
    return (half_u16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#elif VECTOR_BYTES == 16 && defined(__aarch64__)
    return (half_u16)vcvt_f16_f32((float32x4_t)x);
#else
    return __builtin_convertvector(narrow(&format_f16, (vec_f32)x), half_u16);
#endif
}

/* Of each word the byte of this number. */
static inline vec widen_f8(const struct format *f, vec x, int byte)
{
    return (vec)widen(f, (vec_u32)x >> 8 * byte & 0xff);
}

static inline vec narrow_f8(const struct format *f, const vec *parts)
{
    vec_u32 words = narrow(f, (vec_f32)parts[0]);
    for (int byte = 1; byte < 4; byte++)
        words |= narrow(f, (vec_f32)parts[byte]) << 8 * byte;
    return (vec)words;
}

#endif
