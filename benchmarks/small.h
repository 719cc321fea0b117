/* SPDX-License-Identifier: MIT */
/* What programs of one file need, whose name is PROGRAM: to end with a
 * sentence, and a clock. */
#ifndef BENCHMARKS_SMALL_H
#define BENCHMARKS_SMALL_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coll/coll.h"

static inline _Noreturn void fail(const char *sentence)
{
    fprintf(stderr, PROGRAM ": %s\n", sentence);
    exit(1);
}

static inline void check(coll_status status)
{
    if (status != COLL_OK)
        fail(coll_last_error(NULL));
}

/* Seconds. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
