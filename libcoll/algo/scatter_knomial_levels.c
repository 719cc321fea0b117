/* SPDX-License-Identifier: MIT */
/* Scatter on k-nomial trees of radix 4, one in each group of every level.
 *
 *   time   sum over the levels of ceil(log4 k) alpha for k groups in one, and
 *          (n - 1)/n beta_outside bytes
 *   when   short vectors on many ranks in groups: each round of messages over
 *          slow links has whole groups' parts
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_scatter_knomial_levels(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_scatter(p, s, s->tree, 4);
}
