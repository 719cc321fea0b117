/* SPDX-License-Identifier: MIT */
/* The state of communicators of running jobs, from two looks at their flight
 * records. Whether a communicator is well is a question of progress: a process
 * that is there proves nothing. */
#ifndef PROGRAMS_RAS_H
#define PROGRAMS_RAS_H

#include "programs/trace_set.h"

enum ras_process {
    RAS_RUNNING,   /* on a processor, or it could be */
    RAS_SLEEPING,  /* waits for something */
    RAS_BLOCKED,   /* in the kernel, for a disk mostly */
    RAS_STOPPED,   /* by a signal or a debugger */
    RAS_GONE,      /* and its record is left */
    RAS_ELSEWHERE, /* on another machine, or not to be seen from here */
};

struct ras_rank {
    const struct trace_file *file;
    enum ras_process process;
    const struct record *last; /* operation; NULL: it has begun none */
    double seconds;            /* since that began, or if it is over, ended */
    uint64_t behind; /* operations that others have begun, and it has not */
    double late;     /* seconds: when it begins, after the first, on average of
                        the operations that all have on record */
    size_t messages; /* sends and receives that have not ended, */
    const struct record *message; /* the oldest; NULL: none */
    double message_seconds;       /* since that began */
    bool moved;                   /* between the looks */
};

enum ras_state {
    RAS_IDLE,    /* no rank is in an operation */
    RAS_WORKING, /* operations begin or end */
    RAS_WAITING, /* some rank is in one, not for long yet */
    RAS_STALLED, /* nothing has moved, and some rank is in one for long */
    RAS_BROKEN,  /* the process of a rank is gone, others are there */
    RAS_FAILED,  /* a rank says that it has failed, and why */
    RAS_STATES
};

struct ras_comm {
    const struct trace_job *job;
    struct ras_rank *ranks; /* those on record, ascending */
    int n, nranks;
    enum ras_state state;
    uint64_t operation; /* the last that any rank has begun; 0: none */
    double pending;     /* seconds since the oldest that has not ended began */
    double rate;        /* operations a second between the looks */
    double period;  /* seconds from one to the next, on average of those that
                       all have on record; 0: there are not two */
    size_t counted; /* so many */
    int slowest;    /* whose `late` is most; an index */
};

/* What is found of a communicator that some process has open: `earlier`, of
 * `interval` seconds before, may be empty. An operation that has not ended after
 * `stalled` seconds is long. False: no memory. To be freed. */
bool ras_look(struct ras_comm *, const struct trace_job *,
              const struct trace_set *earlier, double interval, double stalled);
void ras_free(struct ras_comm *);

/* Whether some process has it open. */
bool ras_runs(const struct trace_job *);
bool ras_is_wrong(const struct ras_comm *); /* stalled, broken or failed */

extern const char *const ras_state_names[], *const ras_process_names[];

/* Whether its last operation has not ended. */
bool ras_is_in(const struct ras_rank *);

/* To stdout: in sentences, as one JSON object, for Prometheus. */
void ras_text(const struct ras_comm *, int n);
void ras_json(const struct ras_comm *, int n, double interval);
void ras_prometheus(const struct ras_comm *, int n);

#endif
