/* SPDX-License-Identifier: MIT */
/* A counter-based generator: number i of stream `seed` is a pure function, so
 * order, threads and ranks do not matter. SplitMix64's output function (Steele
 * et al., OOPSLA 2014) over a Weyl sequence. */
#ifndef TRAINER_RANDOM_H
#define TRAINER_RANDOM_H

#include <stdint.h>

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t random_u64(uint64_t seed, uint64_t i)
{
    return random_mix(random_mix(seed)
                      + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* 0 <= result < n. The bias is below n / 2^32. */
static inline uint64_t random_below(uint64_t seed, uint64_t i, uint32_t n)
{
    return (random_u64(seed, i) >> 32) * n >> 32;
}

/* 0 <= result < 1 */
static inline float random_unit(uint64_t seed, uint64_t i)
{
    return (float)(random_u64(seed, i) >> 40) * 0x1p-24f;
}

#endif
