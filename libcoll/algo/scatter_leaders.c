/* SPDX-License-Identifier: MIT */
/* Scatter by leaders: the root sends each outermost group's part to its first
 * rank, which passes it on, level by level; the root leads its own groups.
 *
 *   time   as gather_leaders.c
 *   when   ranks in groups, where messages take the root's time, and short
 *          vectors: what a group gets crosses in one message, but is then
 *          spread
 *   from   Karonis et al., "Exploiting hierarchy in parallel computer networks
 *          to optimize collective operation performance", IPDPS 2000
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_scatter_leaders(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_scatter(p, s, s->tree, s->nranks > 2 ? s->nranks : 2);
}
