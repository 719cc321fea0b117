/* SPDX-License-Identifier: MIT */
/* Runs a collective of one length until the library has tried what it would,
 * and keeps what it then knows. */
#ifndef PROGRAMS_TUNE_RUN_H
#define PROGRAMS_TUNE_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

struct tune_job {
    coll_comm *comm;
    int rank, nranks;
    coll_dtype dtype;
    long iterations;   /* at most, of one length */
    double seconds;    /* about at most, of one length */
    void *send, *recv; /* as tune_allocate() left them */
};

/* One collective and length; the candidates only at rank 0. */
struct tune_result {
    const char *collective;
    size_t bytes, count; /* of the whole vector; as the call wants it */
    bool native;         /* shared memory serves it: it did not run */
    long operations;
    double seconds;
    coll_candidate *candidates; /* what the library would run first */
    int n;
};

/* The collectives whose times are learned; NULL past the last. */
const char *tune_collective(int i);

/* The count of the call that moves about so many bytes, at least one element,
 * and those bytes. */
size_t tune_count(const struct tune_job *, const char *collective,
                  size_t *bytes);

/* Vectors for all lengths up to max_bytes. */
void tune_allocate(struct tune_job *, size_t max_bytes);

/* All ranks. An error ends the process with status 1, and the job. */
void tune_size(struct tune_job *, struct tune_result *);

/* Says so on stderr and to the other ranks; the end of process and job. */
__attribute__((noreturn, format(printf, 2, 3))) void
tune_fail(struct tune_job *, const char *format, ...);

/* tune_fail() with the sentence of the communicator, if it is an error. */
void tune_check(struct tune_job *, coll_status);

/* tune_links.c. Measures what links between hosts cost, several times, if that
 * can be stored; job->comm is another one afterwards. All ranks. */
void tune_links(struct tune_job *);

/* Of the others, the one that took the least; NULL: none was measured. */
const coll_candidate *tune_runner_up(const struct tune_result *);

/* What has the least predicted time. */
const coll_candidate *tune_predicted(const struct tune_result *);

int tune_measured(const struct tune_result *); /* how many were */

#endif
