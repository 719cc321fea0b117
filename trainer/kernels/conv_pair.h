/* SPDX-License-Identifier: MIT */
/* What conv_tile.c and conv_peak.c multiply with CONV_BF16: pairs of bf16,
 * which lie where a float would, the first in its lower half. A product of
 * pairs is the sum of the two products, in float.
 *
 * Processors without AVX512-BF16 take a pair apart: the upper half of a float
 * is a bf16. So they have the same products and add them in another order; and
 * AVX512-BF16 takes subnormal numbers for zero. */
#ifndef TRAINER_KERNELS_CONV_PAIR_H
#define TRAINER_KERNELS_CONV_PAIR_H

#include <stdint.h>
#include <string.h>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

typedef int32_t operand __attribute__((vector_size(4 * CONV_LANES)));
typedef int32_t pairs
    __attribute__((vector_size(4 * CONV_LANES), aligned(4), may_alias));

INLINE operand operands(const float *x)
{
    return *(const pairs *)x;
}

INLINE operand repeated(const float *x)
{
    int32_t pair;
    memcpy(&pair, x, sizeof(pair));
    return pair + (operand){0};
}

INLINE reg add_product(reg sum, operand a, operand b)
{
#if defined(__AVX512BF16__)
    return (reg)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    const operand upper = (operand){0} - 0x10000;
    return sum + (reg)(a << 16) * (reg)(b << 16)
           + (reg)(a & upper) * (reg)(b & upper);
#endif
}

#endif
