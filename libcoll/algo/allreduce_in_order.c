/* SPDX-License-Identifier: MIT */
/* Allreduce in rank order, in one round: every rank sends its vector to every
 * other, and all combine all of them.
 *
 *   time   alpha + (n - 1) (beta + gamma) bytes
 *   when   short vectors whose result must not depend on who adds what first
 *   order  in pairs (op/op.h), rounded once
 *   from   allreduce_direct.c, whose sums are rounded one by one
 */
#include "algo/algo.h"
#include "algo/in_order.h"

void plan_allreduce_in_order(struct plan *p, const struct plan_shape *s)
{
    plan_init(p, 1, s->nranks - 1);
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    else
        plan_combine_all(p, s);
}
