/* SPDX-License-Identifier: MIT */
/* One size, measured by the timing rule: before every iteration each rank
 * rewrites its input and after it reads its output, neither timed; the ranks
 * start together; an iteration takes the time of its slowest rank. */
#ifndef MEASURE_H
#define MEASURE_H

#include "bench.h"
#include "inputs.h"
#include "job.h"

struct measure {
    const struct job *job;
    const struct bench *bench;
    struct inputs inputs;
    void *send, *recv;  /* equal if in place; whole pages */
    unsigned char *big; /* larger than any cache; NULL if warm */
    size_t big_bytes;
};

/* Room for vectors of up to max_bytes; ends the program if there is none. */
void measure_create(struct measure *, const struct job *, const struct bench *,
                    size_t max_bytes);
void measure_free(struct measure *);

/* Fills all of *result but algorithm, predicted, limit and before. Every rank
 * gets the same. */
void measure_run(struct measure *, size_t count, struct bench_result *result);

/* --cold: throws both vectors out of the caches. --warm: does nothing. */
void measure_flush(const struct measure *);

#endif
