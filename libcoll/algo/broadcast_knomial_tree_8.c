/* SPDX-License-Identifier: MIT */
/* Broadcast on a k-nomial tree of radix 8: as broadcast_knomial_tree.c,
 * with up to 7 messages at once.
 *
 *   when   the shortest vectors, where a round costs more than 8 messages
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_broadcast_knomial_tree_8(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_broadcast(p, s, 8);
}
