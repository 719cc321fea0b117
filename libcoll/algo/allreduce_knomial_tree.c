/* SPDX-License-Identifier: MIT */
/* Allreduce on a k-nomial tree of radix 4: reduce up to rank 0, then broadcast
 * down.
 *
 *   time   2 ceil(log4 n) alpha + 6 ceil(log4 n) beta bytes + half of that
 * gamma bytes, where n is a power of 4 when   short vectors: as few messages as
 * the binomial tree's in half the rounds; with 4 ranks two rounds
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_allreduce_knomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_allreduce(p, s, 4);
}
