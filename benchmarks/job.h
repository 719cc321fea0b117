/* SPDX-License-Identifier: MIT */
/* The ranks of this run, and what the program itself says to them. An error of
 * the library ends the program: one line on stderr, status 1, or 2 where the
 * environment describes no job that could be joined. */
#ifndef JOB_H
#define JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"

struct job {
    coll_comm *comm;
    int rank, nranks, nhosts;
    int *host_of; /* per rank: the lowest rank on its host */
    int *cpu_of;  /* per rank: the CPU on which it was at start */
};

void job_start(struct job *);
void job_finish(struct job *);

/* Ends the program with the library's sentence unless status is COLL_OK. */
void job_check(const struct job *, coll_status);

/* Ends the program with this line on stderr. The other ranks, if the job runs,
 * have it too, and who found it. */
__attribute__((noreturn, format(printf, 2, 3))) void
job_refuse(int exit_status, const char *format, ...);

/* Returns on every rank once every rank has come. */
void job_barrier(const struct job *);

/* x[i] becomes the largest of all ranks' x[i]. */
void job_max(const struct job *, double *x, size_t count);

uint64_t job_sum(const struct job *, uint64_t x);

/* all[r] is what rank r gave, for count values each: all[r * count + i]. */
void job_gather(const struct job *, const uint64_t *mine, size_t count,
                uint64_t *all);

/* Seconds, monotonic. */
double job_clock(void);

/* Ends the program if the job has failed: for who waits without the library. */
void job_look_up(void);

/* Zeros; ends the program where there is no memory. */
void *job_alloc(size_t bytes);
__attribute__((noreturn)) void job_no_memory(size_t bytes);

#endif
