/* SPDX-License-Identifier: MIT */
/* Reduce in rank order: every rank combines one chunk and sends it to the root.
 *
 *   time   2 alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   the result must not depend on who adds what first
 *   order  in pairs (op/op.h), whichever is the root; rounded once
 *   from   as allreduce_in_order_scatter.c
 *
 * Of a vector of fewer elements than ranks the last ranks combine nothing; of
 * one element the root has all.
 */
#include "algo/algo.h"
#include "algo/in_order.h"

void plan_reduce_in_order(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    plan_init(p, n, n - 1);
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    const struct place result = me == 0 ? OUT(0) : SUM(me);
    const step_id ready = plan_combine_slices(p, s, result);
    if (me > 0)
        plan_send(p, 0, result, ready);
    for (int c = 1; c < n && me == 0; c++)
        plan_recv(p, c, OUT(c), PLAN_START);
}
