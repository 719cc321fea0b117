/* SPDX-License-Identifier: MIT */
/* Barrier on a k-nomial tree of radix 4: up to rank 0, then down.
 *
 *   time   2 ceil(log4 n) alpha
 *   when   more ranks than processors: only 2 (n - 1) messages in the whole job
 *
 * A message is the vector, which is one byte long; what is in it is not read.
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_barrier_knomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_barrier(p, s, 4);
}
