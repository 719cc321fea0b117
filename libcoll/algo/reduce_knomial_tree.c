/* SPDX-License-Identifier: MIT */
/* Reduce on a k-nomial tree of radix 4.
 *
 *   time   ceil(log4 n) (alpha + 3 (beta + gamma) bytes), where n is a power of
 * 4 when   short vectors: three messages at once, half the rounds of the
 * binomial tree
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_reduce_knomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_reduce(p, s, 4);
}
