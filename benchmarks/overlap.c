/* SPDX-License-Identifier: MIT */
#include "overlap.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { FEWEST = 5, MOST = 1000, CALIBRATION = 1 << 22 };
static const double all_seconds = 0.5;

/* Only registers, so that nothing but the processor is shared. */
static uint64_t compute(long turns)
{
    uint64_t x = 1;
    for (long i = 0; i < turns; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

static volatile uint64_t sink;

/* Of arithmetic for so long; the best of some, as others may disturb. */
static long turns_for(double seconds)
{
    double least = INFINITY;
    for (int i = 0; i < 5; i++) {
        const double start = job_clock();
        sink = compute(CALIBRATION);
        least = fmin(least, job_clock() - start);
    }
    return (long)(seconds / least * CALIBRATION);
}

/* The median of n times what takes the slowest rank. */
static double median(struct measure *m, long n, bool operates, long turns)
{
    double *const seconds = job_alloc((size_t)n * sizeof *seconds);
    for (long i = 0; i < n; i++) {
        coll_request *requests[SHAPE_REQUESTS] = {NULL};
        measure_begin(m, i);
        const double start = job_clock();
        if (operates)
            job_check(m->job, measure_call(m, requests));
        if (turns)
            sink = compute(turns);
        job_check(m->job, coll_wait_all(SHAPE_REQUESTS, requests));
        seconds[i] = job_clock() - start;
        measure_end(m);
    }
    job_max(m->job, seconds, (size_t)n);
    const double middle = measure_percentile(seconds, n, 0.5);
    free(seconds);
    return middle;
}

void overlap_run(struct measure *m, struct bench_result *result)
{
    const double most = all_seconds / fmax(result->p50, 1e-9);
    const long n = (long)fmin(fmax(most, FEWEST), MOST);
    struct bench_overlap *const o = &result->overlap;
    o->alone = median(m, n, true, 0);
    const long turns = turns_for(o->alone);
    o->compute = median(m, n, false, turns);
    o->both = median(m, n, true, turns);
}
