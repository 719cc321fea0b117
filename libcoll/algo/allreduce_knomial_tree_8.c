/* SPDX-License-Identifier: MIT */
/* Allreduce on a k-nomial tree of radix 8: as allreduce_knomial_tree.c,
 * with up to 7 messages at once.
 *
 *   when   the shortest vectors, where a round costs more than 8 messages
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_allreduce_knomial_tree_8(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_allreduce(p, s, 8);
}
