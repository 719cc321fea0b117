/* SPDX-License-Identifier: MIT */
/* The flight records of one communicator's ranks, put side by side.
 *
 * Operations have numbers that are the same on all ranks, so they match without
 * a clock. The ranks of one machine have one clock. Between machines operations
 * say how far the clocks are apart: none that waits for all ranks ends anywhere
 * before it has begun everywhere. Of all offsets that this allows the middle is
 * taken; without such an operation the date that each machine believes in.
 */
#ifndef PROGRAMS_TRACE_JOB_H
#define PROGRAMS_TRACE_JOB_H

#include "programs/trace_file.h"

/* One operation of one rank. */
struct trace_entry {
    int rank; /* index into files */
    const struct record *record;
};

/* A machine's clock. */
struct trace_clock {
    double offset_ns,
        doubt_ns; /* to the first machine's, and how wrong at most */
    bool matched; /* by operations; else by date */
};

struct trace_job {
    struct trace_file **files; /* by rank; of a rank the first one */
    int n;
    struct trace_entry *entries; /* by number, then by rank */
    size_t nentries;
    int *machine; /* of each file, an index */
    struct trace_clock *clocks;
    int nmachines;
    double first_ns, last_ns; /* of all events, on the first machine's clock */
};

/* Takes files of one job; they stay the caller's. False: no memory. */
bool trace_job_make(struct trace_job *, struct trace_file **files, int n);
void trace_job_free(struct trace_job *);

/* When a tick of a file was, on the first machine's clock. */
double trace_job_time(const struct trace_job *, int file, uint64_t ticks);

/* How many entries from i on are of one number. */
size_t trace_job_run(const struct trace_job *, size_t i);

/* trace_messages.c: the sends and receives that have not ended, in sentences on
 * stdout, and for which of them the other rank has made no call, where the
 * rings still have all. */
void trace_messages(const struct trace_job *);

/* What each rank did last, who is missing, and where ranks diverged, in
 * sentences on stdout. Whether they did. */
bool trace_verdict(const struct trace_job *);

#endif
