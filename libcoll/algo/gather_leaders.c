/* SPDX-License-Identifier: MIT */
/* Gather by leaders: all of a group send to its first rank, level by level, and
 * the leaders of the outermost groups to the root, which leads its own.
 *
 *   time   alpha_inside + alpha_outside, and for G groups of g: g + G messages
 *          at the root, not g G; (n - 1)/n beta_outside bytes
 *   when   ranks in groups, where messages take the root's time, and short
 *          vectors: what a group has crosses in one message, but is first
 *          collected
 *   from   Karonis et al., "Exploiting hierarchy in parallel computer networks
 *          to optimize collective operation performance", IPDPS 2000
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_gather_leaders(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_gather(p, s, s->tree, s->nranks > 2 ? s->nranks : 2);
}
