/* SPDX-License-Identifier: MIT */
/* Reduce-scatter in rank order: every rank gets its chunk of all vectors, and
 * combines them.
 *
 *   time   alpha + (n - 1)/n (beta + gamma) bytes
 *   when   the result must not depend on who adds what first
 *   order  in pairs (op/op.h), rounded once
 *   from   the first round of allreduce_in_order_scatter.c
 */
#include "algo/algo.h"
#include "algo/in_order.h"

void plan_reduce_scatter_in_order(struct plan *p, const struct plan_shape *s)
{
    plan_init(p, s->nranks, s->nranks - 1);
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    else
        plan_combine_slices(p, s, OUT(s->rank));
}
