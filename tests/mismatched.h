/* SPDX-License-Identifier: MIT */
/* Runs pairs of what ranks do that does not match, drawn by a seed, each on a
 * communicator of its own in the same processes, and checks that every rank is
 * told: soon, by the right status, in a sentence that names two ranks. */
#ifndef TESTS_MISMATCHED_H
#define TESTS_MISMATCHED_H

#include "coll/coll.h"

/* Draws the next pair of n ranks, the same on each, into memory of its own. */
typedef void mismatch_draw(int n);
/* What this rank does of it; the first error, or COLL_OK. */
typedef coll_status mismatch_run(int rank, coll_comm *comm);
/* Prints it, without a newline, to stderr. */
typedef void mismatch_print(int n);

struct mismatches {
    mismatch_draw *draw;
    mismatch_run *run;
    mismatch_print *print;
    /* Whether a rank is told what it should be; NULL: MISMATCH, naming two
     * ranks and what both called. */
    int (*is_told)(int rank, coll_status, const char *why);
    const coll_config *config; /* of the communicators; may be NULL */
};

/* So many pairs on n ranks; in the fast suite a part. Fails the test where a
 * rank finds something wrong. */
void mismatched_on(const struct mismatches *, const char *const *settings,
                   int n, int seed, unsigned all, unsigned part);
/* Each on 2, 3 and 4 ranks, with this seed and those that follow. */
void mismatched(const struct mismatches *, const char *const *settings,
                int seed, unsigned all, unsigned part);

/* Settings of a job. */
#define QUICK "COLL_CALIBRATE=off", "COLL_OP_SECONDS=20"
extern const char *const quick_shm[], *const quick_ucx[];
/* By shared memory, without what needs no messages. */
const char *const *quick_plans(void);

/* The sentence has two ranks, each with a call, and tells of no rules that
 * differ. */
int names_both_calls(const char *why);

#endif
