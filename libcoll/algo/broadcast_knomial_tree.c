/* SPDX-License-Identifier: MIT */
/* Broadcast on a k-nomial tree of radix 4.
 *
 *   time   ceil(log4 n) (alpha + 3 beta bytes), where n is a power of 4
 *   when   short vectors: three messages at once, half the rounds of the
 * binomial tree
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_broadcast_knomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_broadcast(p, s, 4);
}
