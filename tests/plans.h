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

#endif
