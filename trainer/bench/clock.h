/* SPDX-License-Identifier: MIT */
#ifndef TRAINER_BENCH_CLOCK_H
#define TRAINER_BENCH_CLOCK_H

#include <time.h>

/* Since some moment; never goes back. */
static inline double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
