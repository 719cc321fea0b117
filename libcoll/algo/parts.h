/* SPDX-License-Identifier: MIT */
/* What several planners share. */
#ifndef ALGO_PARTS_H
#define ALGO_PARTS_H

#include <stdbool.h>

#include "plan/plan.h"

/* Reduce-scatter by recursive halving, allgather by recursive doubling. `far`:
 * the largest exchange at distance p/2, else at distance 1. Fills an empty
 * plan. */
void plan_halving_then_doubling(struct plan *, const struct plan_shape *,
                                bool far);

#endif
