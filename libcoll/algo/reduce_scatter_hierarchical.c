/* SPDX-License-Identifier: MIT */
/* Reduce-scatter level by level: every rank adds what it can inside its group,
 * then sends its share of each other group's sums. The mirror of
 * allgather_hierarchical.c, which has the picture.
 *
 *   time   that of the allgather, and (n - 1)/n gamma bytes
 *   when   ranks in groups with slow links between, where the groups are runs
 *          of ranks: each part leaves each group once, as its sum
 *   order  a rank adds to its own share what it hears, innermost groups first
 *   from   as the allgather
 */
#include "algo/algo.h"
#include "plan/mirror.h"

void plan_reduce_scatter_hierarchical(struct plan *p,
                                      const struct plan_shape *s)
{
    const bool grouped = s->tree && s->tree->nlevels > 0;
    if (!grouped && !few_ranks(s)) {
        plan_reduce_scatter_halving(p, s);
        return;
    }
    struct plan spread;
    plan_allgather_hierarchical(&spread, s);
    plan_mirror(p, &spread, OUT(s->rank));
    plan_free(&spread);
}
