/* SPDX-License-Identifier: MIT */
/* Small arithmetic of sizes. */
#ifndef TRAINER_KERNELS_SW_SW_NUMBERS_H
#define TRAINER_KERNELS_SW_SW_NUMBERS_H

#include <stddef.h>

static inline int sw_least(int a, int b)
{
    return a < b ? a : b;
}

static inline int sw_most(int a, int b)
{
    return a > b ? a : b;
}

/* How many units hold x, and x filled up to them. */
static inline int sw_parts(int x, int unit)
{
    return (x + unit - 1) / unit;
}

static inline int sw_full(int x, int unit)
{
    return sw_parts(x, unit) * unit;
}

static inline size_t sw_times(int a, int b, int c)
{
    return (size_t)a * (size_t)b * (size_t)c;
}

#endif
