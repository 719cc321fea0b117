/* SPDX-License-Identifier: MIT */
/* How much a test of many cases tries: by itself a part of them, spread over
 * all; in the fast suite, with TESTS_FEW=1, a third of that; in the slow suite,
 * with TESTS_THOROUGH=1, each. */
#ifndef TESTS_THOROUGH_H
#define TESTS_THOROUGH_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool thorough(void)
{
    return getenv("TESTS_THOROUGH") != NULL;
}

static inline bool only_few(void)
{
    return getenv("TESTS_FEW") != NULL;
}

/* All, or so many, or fewer. */
static inline unsigned cases(unsigned all, unsigned part)
{
    return thorough() ? all : only_few() ? (part + 2) / 3 : part;
}

/* Numbers of ranks: all small ones, and around powers of two. */
static inline bool tries_ranks(int n)
{
    const bool power = (n & (n - 1)) == 0;
    return thorough() || power || n <= 9
           || (!only_few() && (n <= 17 || ((n + 1) & n) == 0 || n % 12 == 0));
}

static inline int next_ranks(int n)
{
    do
        n++;
    while (!tries_ranks(n));
    return n;
}

#endif
