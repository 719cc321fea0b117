/* SPDX-License-Identifier: MIT */
/* The processor's time of the calling thread: that of others, who run on the
 * same processor, hardly counts. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

/* Seconds, since whenever. */
static inline double clock_of_thread(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
