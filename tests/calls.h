/* SPDX-License-Identifier: MIT */
/* The collectives as tests of communicators call them: each by its kind, with
 * values whose result is known. */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include <stddef.h>

#include "coll/coll.h"

enum kind {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALLGATHER,
    GATHER,
    SCATTER,
    ALLTOALL,
    BARRIER,
    NKINDS
};

extern const char *const call_names[NKINDS];

/* Settings for run_ranks(): all over one transport. */
extern const char *const over_shm[], *const over_ucx[];

/* Seconds, of a clock that all ranks share. */
double now(void);

/* Element i of rank r; sums over 16 ranks stay exact in an f32. */
float value(int r, size_t i);

/* Element i of rank's result, on n ranks that give value(). */
float wanted(enum kind, int rank, int n, size_t count, size_t i, coll_op,
             int root);

/* Any of the calls, on elements of any type. */
coll_status call(enum kind, const void *in, void *out, size_t count, coll_dtype,
                 coll_op, int root, coll_comm *, coll_request **request);

/* As a rank's part: calls with value() and checks what comes out, that what
 * goes in stays, and that nothing is written behind. The root follows from the
 * count. Returns 1, with a sentence on stderr, if not all is right. */
int check_f32(coll_comm *, enum kind, size_t count, int in_place, coll_op);

#endif
