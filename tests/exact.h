/* SPDX-License-Identifier: MIT */
/* Numbers whose sums are exact in a float, so that what is right is equal,
 * whatever its order; and other things drawn from a seed. */
#ifndef TESTS_EXACT_H
#define TESTS_EXACT_H

#include <string.h>

#include "checks.h"
#include "random.h"

/* Exactly so much, so that sanitizers see what lies beyond; all NaN. From the
 * beginning of a line on, as tensors are. */
static inline float *unset(size_t count)
{
    enum { LINE = 64 };
    void *x = NULL;
    require(!posix_memalign(&x, LINE, count * sizeof(float) + 1), "no memory");
    memset(x, 0xff, count * sizeof(float));
    return x;
}

/* Multiples of 1/8, at most 1: float has sums of their products whole. */
static inline float *eighths(size_t count, uint64_t seed)
{
    float *x = unset(count);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((int)(random_u64(seed, i) % 17) - 8) / 8;
    return x;
}

static inline int pick(uint64_t seed, int which, int least, int most)
{
    return least
           + (int)(random_u64(seed, (uint64_t)which)
                   % (uint64_t)(most - least + 1));
}

#endif
