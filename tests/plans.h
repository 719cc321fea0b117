/* SPDX-License-Identifier: MIT */
/* For the tests of planners. */
#ifndef TESTS_PLANS_H
#define TESTS_PLANS_H

#include "algo/algo.h"

/* Planners of a hierarchy have tests of their own. */
static inline bool serves(const struct algo *algo, int n)
{
    return algo->fits(&(struct plan_shape){.nranks = n, .segments = 1});
}

static inline void make_plan(const struct algo *algo, struct plan *p, int rank,
                             int n, int segments)
{
    algo->plan(p, &(struct plan_shape){
                      .rank = rank, .nranks = n, .segments = segments});
}

/* So many bytes or a few more: an alltoall's parts are as long as one another.
 */
static inline size_t even_parts(const struct algo *algo, int n, size_t bytes)
{
    const size_t m = (size_t)n;
    return algo->kind == ALLTOALL ? (bytes + m - 1) / m * m : bytes;
}

/* Whether a rank puts in, or gets out, only its part of the vector. */
static inline bool gives_part(enum coll_kind kind)
{
    return kind == ALLGATHER || kind == GATHER;
}

static inline bool gets_part(enum coll_kind kind)
{
    return kind == REDUCE_SCATTER || kind == SCATTER;
}

#endif
