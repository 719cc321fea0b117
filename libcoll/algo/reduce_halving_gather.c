/* SPDX-License-Identifier: MIT */
/* Reduce by a reduce-scatter, whose chunks the root then gathers.
 *
 *   time   (ceil(log2 n) + 1) alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   medium to long vectors on many ranks: all ranks add
 *   order  that of reduce_scatter_halving.c
 *   from   Rabenseifner, "Optimization of collective reduction operations",
 *          ICCS 2004; here for any n, by Traeff's halving
 *
 * Rank 2 of 4:
 *
 *   round 0, 1   has the sum of chunk 2 (reduce_scatter_halving.c)
 *   at last      sends chunk 2 to rank 0
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_reduce_halving_gather(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;

    plan_init(p, n, plan_halve_slots(n));
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    const struct place sum = me == 0 ? OUT(0) : SUM(me);
    const step_id ready = plan_halve(p, n, me, sum);
    if (me > 0)
        plan_send(p, 0, sum, ready);
    /* In place, a chunk of the sum holds the root's share: that was read. */
    for (int c = 1; c < n && me == 0; c++)
        plan_recv(p, c, OUT(c), PLAN_START);
}
