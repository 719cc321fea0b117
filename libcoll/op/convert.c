/* SPDX-License-Identifier: MIT */
/* Conversions in integer arithmetic, the same on every CPU.
 *
 * f8e4m3 follows OCP 8-bit Floating Point (1.0, 2023) in its mode without
 * saturation, as the casts of PyTorch (float8_e4m3fn) and ml_dtypes do: what
 * rounds to more than 448 becomes NaN, so that a sum that left the range is
 * seen instead of looking like a large number.
 */
#include "op/convert.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A sign, then exponent, then mantissa. Codes are without the sign. */
struct format {
    int exponent_bits, mantissa_bits;
    uint32_t largest;  /* the largest finite code */
    uint32_t overflow; /* what lies above becomes this */
    bool has_infinity;
};

static const struct format f16 = {5, 10, 0x7bff, 0x7c00, true};
static const struct format f8e5m2 = {5, 2, 0x7b, 0x7c, true};
static const struct format f8e4m3 = {4, 3, 0x7e, 0x7f, false};

static inline float to_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* 2 to the power e, which must be a normal f32. */
static inline float power_of_two(int e)
{
    return to_float((uint32_t)(127 + e) << 23);
}

static inline int bias_of(const struct format *f)
{
    return (1 << (f->exponent_bits - 1)) - 1;
}

static inline float widen(const struct format *f, uint32_t bits)
{
    const int shift = 23 - f->mantissa_bits, bias = bias_of(f);
    const int width = f->exponent_bits + f->mantissa_bits;
    const uint32_t code = bits & ((1u << width) - 1);
    const uint32_t sign = bits >> width << 31;
    const uint32_t mantissa = code & ((1u << f->mantissa_bits) - 1);

    if (code > f->largest) /* infinity has no mantissa, unlike a NaN */
        return to_float(sign | 0x7f800000 | mantissa << shift);
    if (code >> f->mantissa_bits)
        return to_float(sign
                        | ((code << shift) + ((uint32_t)(127 - bias) << 23)));
    const float x = (float)code * power_of_two(1 - bias - f->mantissa_bits);
    return to_float(sign | to_bits(x));
}

static inline uint32_t narrow_nan(const struct format *f, uint32_t bits)
{
    if (!f->has_infinity)
        return f->overflow;
    const int shift = 23 - f->mantissa_bits;
    const uint32_t quiet = 1u << (f->mantissa_bits - 1);
    return f->overflow | quiet | (bits & 0x7fffff) >> shift;
}

/* The code of |x|. */
static inline uint32_t narrow_magnitude(const struct format *f, uint32_t bits)
{
    const int shift = 23 - f->mantissa_bits, bias = bias_of(f);
    const uint32_t rebias = (uint32_t)(127 - bias) << 23;

    if (bits > 0x7f800000)
        return narrow_nan(f, bits);
    if (bits < rebias + (1u << 23)) {
        /* Subnormal: next to this number f32 has the format's own spacing,
         * so that the addition rounds, and to even. */
        const float magic = power_of_two(24 - bias - f->mantissa_bits);
        return to_bits(to_float(bits) + magic) - to_bits(magic);
    }
    const uint32_t x = bits - rebias;
    const uint32_t odd = x >> shift & 1;
    const uint32_t code = (x + (1u << (shift - 1)) - 1 + odd) >> shift;
    return code > f->largest ? f->overflow : code;
}

static inline uint32_t narrow(const struct format *f, float x)
{
    const uint32_t bits = to_bits(x);
    const uint32_t sign = bits >> 31;
    return sign << (f->exponent_bits + f->mantissa_bits)
           | narrow_magnitude(f, bits & 0x7fffffff);
}

static inline uint16_t narrow_bf16(float x)
{
    const uint32_t bits = to_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void widen_f8(const struct format *f, float *out, const uint8_t *in,
                     size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = widen(f, in[i]);
}

static void narrow_f8(const struct format *f, uint8_t *out, const float *in,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)narrow(f, in[i]);
}

void convert_widen(coll_dtype dtype, float *out, const void *in, size_t n)
{
    const uint16_t *const halves = in;
    if (dtype == COLL_F16) {
        for (size_t i = 0; i < n; i++)
            out[i] = widen(&f16, halves[i]);
    } else if (dtype == COLL_BF16) {
        for (size_t i = 0; i < n; i++)
            out[i] = to_float((uint32_t)halves[i] << 16);
    } else {
        widen_f8(dtype == COLL_F8E4M3 ? &f8e4m3 : &f8e5m2, out, in, n);
    }
}

void convert_narrow(coll_dtype dtype, void *out, const float *in, size_t n)
{
    uint16_t *const halves = out;
    if (dtype == COLL_F16) {
        for (size_t i = 0; i < n; i++)
            halves[i] = (uint16_t)narrow(&f16, in[i]);
    } else if (dtype == COLL_BF16) {
        for (size_t i = 0; i < n; i++)
            halves[i] = narrow_bf16(in[i]);
    } else {
        narrow_f8(dtype == COLL_F8E4M3 ? &f8e4m3 : &f8e5m2, out, in, n);
    }
}
