/* SPDX-License-Identifier: MIT */
#include "comm/roofline.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/here.h"

enum { TURNS = 8, LEAST_TURNS = 3, NEAR = 65536, FAR = 1 << 20, LINE = 64 };
static const double enough_seconds = 1e-3;

/* What is in the caches goes to memory. False: nobody knows how. */
static bool leave_caches(const char *x, size_t bytes)
{
#if defined(__x86_64__)
    for (size_t i = 0; i < bytes; i += LINE)
        __builtin_ia32_clflush(x + i);
    __builtin_ia32_mfence();
    return true;
#elif defined(__aarch64__)
    for (size_t i = 0; i < bytes; i += LINE)
        __asm__ volatile("dc civac, %0" : : "r"(x + i) : "memory");
    __asm__ volatile("dsb sy" : : : "memory");
    return true;
#else
    (void)x, (void)bytes;
    return false;
#endif
}

/* Seconds to add up two vectors of so many bytes, or 0. Others may take the
 * processor away in any of the turns. */
static double least_time(size_t bytes, bool far)
{
    const size_t count = bytes / sizeof(float);
    const struct combine *const sum = op_combine(COLL_F32, COLL_SUM);
    float *x = malloc(2 * bytes);
    double least = INFINITY, all = 0;
    if (!x)
        return 0;
    memset(x, 0, 2 * bytes);
    for (int i = 0; i < LEAST_TURNS || (i < TURNS && all < enough_seconds);
         i++) {
        void *dst[] = {x};
        const void *src[] = {x, x + count};
        if (far && !leave_caches((char *)x, 2 * bytes))
            break;
        const double start = clock_of_thread();
        op_run(sum, dst, 1, src, 2, count, 1, false);
        const double took = clock_of_thread() - start;
        least = fmin(least, took);
        all += took;
    }
    free(x);
    return all > 0 ? least : 0;
}

double roofline_sum(void)
{
    const double seconds = least_time(NEAR, false);
    return seconds > 0 ? seconds / NEAR : here_assumed.gamma;
}

double roofline_memory(void)
{
    return least_time(FAR, true) / (2.0 * FAR);
}
