/* SPDX-License-Identifier: MIT */
/* How much a test of many cases tries: a part of them, spread over all; in the
 * slow suite, with TESTS_THOROUGH=1, each. */
#ifndef TESTS_THOROUGH_H
#define TESTS_THOROUGH_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool thorough(void)
{
    return getenv("TESTS_THOROUGH") != NULL;
}

/* All, or so many. */
static inline unsigned cases(unsigned all, unsigned part)
{
    return thorough() ? all : part;
}

/* Numbers of ranks: all small ones, and powers of two. */
static inline bool tries_ranks(int n)
{
    return thorough() || n <= 9 || (n & (n - 1)) == 0;
}

static inline int next_ranks(int n)
{
    do
        n++;
    while (!tries_ranks(n));
    return n;
}

#endif
