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
    coll_comm
        *comm; /* of what is measured; the job's unless somebody sets it */
    struct shape shape;
    struct inputs inputs;
    size_t room;        /* bytes of each of the following */
    char *from, *to;    /* equal if in place; whole pages */
    size_t count;       /* of the size under way, as in the call */
    size_t *lengths;    /* [nranks], of its parts */
    size_t stride;      /* bytes from one call's vectors to the next one's */
    char *send, *recv;  /* where its input and output are in from and to */
    unsigned char *big; /* larger than any cache; NULL if warm */
    size_t big_bytes;
};

/* Room for vectors of up to max_bytes; ends the program if there is none. */
void measure_create(struct measure *, const struct job *, const struct bench *,
                    size_t max_bytes);
void measure_free(struct measure *);

/* Goes over to a collective, and to a size of it. */
void measure_collective(struct measure *, enum collective);
void measure_size(struct measure *, size_t count);

/* Several calls have vectors of their own, as many as --group says: those of
 * this one, from 0 on, count from now on. measure_size() has set 0. */
void measure_use(struct measure *, int call);

/* S of the size under way. */
size_t measure_bytes(const struct measure *);

/* Whether the algorithm that is forced serves this job. */
bool measure_fits(struct measure *);

/* Fills all of *result but algorithm, predicted, limit and before. Every rank
 * gets the same. */
void measure_run(struct measure *, struct bench_result *result);

/* Before an iteration: writes the input, and returns on all ranks together,
 * which alone is the second. */
void measure_begin(struct measure *, long iteration);
void measure_together(const struct measure *);
/* What is timed; requests as of shape_call(). */
coll_status measure_call(struct measure *,
                         coll_request *requests[SHAPE_REQUESTS]);
/* After it: reads the output. */
void measure_end(struct measure *);

/* --cold: throws all vectors out of the caches. --warm: does nothing. */
void measure_flush(const struct measure *);

/* Sorts x and returns the smallest of it that a share p does not exceed. */
double measure_percentile(double *x, long n, double p);

#endif
