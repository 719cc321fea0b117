/* SPDX-License-Identifier: MIT */
/* Allreduce by leaders: each group's sum to its first member, level by level;
 * the leaders of the outermost groups exchange; and back.
 *
 *   time   2 log2 g (alpha_inside + beta_inside bytes) for each level, and
 *          log2 G (alpha_outside + beta_outside bytes) between G groups
 *   when   short vectors: few messages over slow links, each way one
 *   order  a leader adds itself, then its group's others; groups pairwise
 *   from   Karonis et al., "Exploiting hierarchy in parallel computer networks
 *          to optimize collective operation performance", IPDPS 2000
 */
#include "algo/algo.h"
#include "algo/lanes.h"

/* Appends the plan of my part among the leaders of stage d. */
static step_id among(struct plan *p, const struct lanes *l, int d,
                     void (*planner)(struct plan *, const struct plan_shape *),
                     enum plan_buf in, step_id ready)
{
    struct plan part;
    const int first = l->first[d];
    planner(&part, &(struct plan_shape){
                       .rank = l->mine[d],
                       .nranks = l->nsiblings[d],
                       .segments = 1,
                   });
    ready = plan_append(
        p, &part, d == l->depth ? NULL : &l->groups.tree->level[d].first[first],
        first, in, ready);
    plan_free(&part);
    return ready;
}

void plan_allreduce_leaders(struct plan *p, const struct plan_shape *s)
{
    struct lanes l;
    step_id ready = PLAN_START;
    enum plan_buf mine = PLAN_IN;
    lanes_init(&l, s);
    plan_init(p, 1, 0);
    /* Down to stage d this rank is its groups' first member, so it takes part
     * in the stages from d on. */
    int outermost = l.depth;
    while (outermost > 0 && l.mine[outermost] == 0)
        outermost--;
    for (int d = l.depth; d >= outermost && d > 0; d--) {
        if (l.nsiblings[d] > 1) {
            ready = among(p, &l, d, plan_reduce_binomial_tree, mine, ready);
            mine = PLAN_OUT;
        }
    }
    if (outermost == 0)
        ready = among(p, &l, 0, plan_allreduce_recursive_doubling, mine, ready);
    for (int d = outermost ? outermost : 1; d <= l.depth; d++)
        if (l.nsiblings[d] > 1)
            ready =
                among(p, &l, d, plan_broadcast_binomial_tree, PLAN_OUT, ready);
}
