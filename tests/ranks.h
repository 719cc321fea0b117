/* SPDX-License-Identifier: MIT */
/* Runs a function as every rank of a job of real processes on this host. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include <stdio.h>
#include <string.h>

#include "coll/coll.h"

/* For a rank_fn: says what does not hold, and the library's sentence, and
 * returns 1. */
#define EXPECT(condition, ...)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
            fprintf(stderr, __VA_ARGS__);                                      \
            fprintf(stderr, "; %s\n", coll_last_error(NULL));                  \
            return 1;                                                          \
        }                                                                      \
    } while (0)

/* For a rank_fn: a call that no program may make, and part of its sentence. */
#define REFUSED(call, words)                                                   \
    EXPECT((call) == COLL_ERR_INVALID && strstr(coll_last_error(NULL), words), \
           "not refused with \"%s\"", words)

/* A rank's part; returns its exit status, 0 for success. The communicator is
 * made before and destroyed after, unless the function ends the process. */
typedef int rank_fn(coll_comm *comm, int rank, int nranks);

/* Forks nranks processes. settings: "NAME=value" strings, NULL at the end, set
 * in each before it first calls libcoll. Returns how many ranks failed; a rank
 * that ends by a signal counts. Kills all that run longer than 240 s. */
int run_ranks(int nranks, const char *const *settings, rank_fn *);

/* For a rank_fn. One more rank has come so far, */
void mark_rank(void);
/* and so many have: returns then, or after a minute, as one may have ended
 * before its mark, where what it expected was wrong. Who has the hub
 * in its process, rank 0, waits so before it ends after a failure, since the
 * news go through it. */
void await_marks(int ranks);
/* This rank has heard of the job's failure, or has waited for 20 s in vain.
 * What others sent before it would else do to end an operation. */
void await_failure(const coll_comm *);

#endif
