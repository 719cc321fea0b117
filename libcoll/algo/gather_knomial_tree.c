/* SPDX-License-Identifier: MIT */
/* Gather on a k-nomial tree of radix 4.
 *
 *   time   at most ceil(log4 n) alpha + (n - 1)/n beta bytes
 *   when   short vectors: three messages at once, half the rounds of the
 *          binomial tree
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_gather_knomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_gather(p, s, NULL, 4);
}
