/* SPDX-License-Identifier: MIT */
/* Plain loops, which the compiler turns into those of CONV_ISA. */
#include "kernels/code.h"

#include <math.h>
#include <string.h>

#include "kernels/reg.h"

INLINE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static void add(const float *from, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] += from[i];
}

static void to_bf16(const float *x, size_t n, uint16_t *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(x[i]), quiet = 1U << 22;
        const uint32_t near = bits + 0x7fff + (bits >> 16 & 1);
        to[i] = (uint16_t)((x[i] != x[i] ? bits | quiet : near) >> 16);
    }
}

static void from_bf16(const uint16_t *from, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = float_of((uint32_t)from[i] << 16);
}

static void add_bf16(const uint16_t *from, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] += float_of((uint32_t)from[i] << 16);
}

/* The bits of the largest |x + lost|, which goes to lost: as integers these
 * have the order of the numbers, with infinity and then NaN above all. */
static uint32_t take(const float *x, float *lost, size_t n)
{
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        lost[i] += x[i];
        const int32_t size = (int32_t)(bits_of(lost[i]) & 0x7fffffff);
        most = size > most ? size : most;
    }
    return (uint32_t)most;
}

static float to_int8(const float *x, float *lost, size_t n, int8_t *to)
{
    const float most = float_of(take(x, lost, n)), least = 1e-30f;
    const float whole = 12582912; /* added to it, a number is rounded to one */
    if (!isfinite(most) || most < least) {
        memset(to, 0, n);
        return isfinite(most) ? 0 : NAN;
    }
    const float scale = most / 127, inverse = 127 / most;
    for (size_t i = 0; i < n; i++) {
        const float sum = lost[i] * inverse + whole;
        to[i] = (int8_t)bits_of(sum);
        lost[i] -= (sum - whole) * scale;
    }
    return scale;
}

static void from_int8(const int8_t *from, float scale, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i] * scale;
}

static void add_int8(const int8_t *from, float scale, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] += (float)from[i] * scale;
}

const struct code_loops NAME(code_, CONV_ISA) = {
    .add = add,
    .to_bf16 = to_bf16,
    .from_bf16 = from_bf16,
    .add_bf16 = add_bf16,
    .to_int8 = to_int8,
    .from_int8 = from_int8,
    .add_int8 = add_int8,
};
