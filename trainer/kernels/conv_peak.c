/* SPDX-License-Identifier: MIT */
/* The loop for one instruction set: CONV_ISA, with CONV_LANES floats in each of
 * CONV_REGISTERS registers; with CONV_BF16 for pairs of bf16. Chains that do
 * not wait for each other are as many as hide the latency of a multiply-add: 8
 * on x86, 16 on the widest Arm. */
#include "kernels/conv_peak.h"

#include "kernels/reg.h"

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

/* Two registers hold factor and summand. */
enum { CHAINS = CONV_REGISTERS > 18 ? 16 : 14 };

#if defined(__x86_64__) && !defined(__FMA__)
enum { FUSED = 0 };
#else
enum { FUSED = 1 };
#endif

#ifdef CONV_BF16
#include "kernels/conv_pair.h"
#define TABLE conv_peak_bf16_
enum { FLOPS = 4 };

INLINE reg step(reg x, int k, const float *factor, const float *summand)
{
    (void)k;
    return add_product(x, repeated(factor), repeated(summand));
}
#else
#define TABLE conv_peak_
enum { FLOPS = FUSED ? 2 : 1 };

INLINE reg step(reg x, int k, const float *factor, const float *summand)
{
    const reg f = *factor - (reg){0}, s = *summand - (reg){0};
    if (FUSED)
        return x * f + s;
    return k % 2 ? x * f : x + s;
}
#endif

static void run(long rounds, float factor, float summand, float *x)
{
    reg acc[CHAINS];
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++)
        acc[k] = load(x + k * LANES);
    for (long i = 0; i < rounds; i++)
#pragma GCC unroll 16
        for (int k = 0; k < CHAINS; k++)
            acc[k] = step(acc[k], k, &factor, &summand);
#pragma GCC unroll 16
    for (int k = 0; k < CHAINS; k++)
        store(x + k * LANES, acc[k]);
}

const struct conv_peak NAME(TABLE, CONV_ISA) = {
    .name = TEXT(CONV_ISA),
    .flops = (double)CHAINS * LANES * FLOPS,
    .run = run,
};
