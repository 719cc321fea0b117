/* SPDX-License-Identifier: MIT */
/* Vectors that prove a plan: element i of rank r is a random 64-bit weight of
 * (r, i), and the sum wraps, so a result equal to the sum of all ranks' weights
 * has each share exactly once, but for one chance in 2^64. */
#ifndef TESTS_WEIGHTS_H
#define TESTS_WEIGHTS_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>

#include "draw.h"

static inline uint64_t weight(int rank, size_t i)
{
    return draw_mix((uint64_t)rank << 32 | i);
}

/* The kernel of a struct combine. */
static inline void add_weights(void *const *dst, int ndst,
                               const void *const *src, int nsrc, size_t n,
                               int divisor, bool stream)
{
    cr_assert(ndst == 1 && nsrc >= 2 && divisor == 1 && !stream);
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (int k = 0; k < nsrc; k++)
            sum += ((const uint64_t *)src[k])[i];
        ((uint64_t *)dst[0])[i] = sum;
    }
}

#endif
