/* SPDX-License-Identifier: MIT */
/* Broadcast on a binomial tree.
 *
 *   time   ceil(log2 n) (alpha + beta bytes)
 *   when   short vectors: log2 n rounds
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Six ranks; a rank sends to its farthest child first, as that has the most to
 * pass on:
 *
 *          0
 *        / | \
 *       4  2  1
 *       |  |
 *       5  3
 */
#include "algo/algo.h"

void plan_broadcast_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    step_id ready = PLAN_START;
    int bit = 1;

    plan_init(p, 1, 0);
    while (bit < n && !(me & bit))
        bit *= 2;
    if (me > 0)
        ready = plan_recv(p, me - bit, OUT(0), PLAN_START);
    /* One after another: the child that has most to pass on comes first and has
     * the port to itself. */
    for (bit /= 2; bit >= 1; bit /= 2)
        if (me + bit < n)
            ready = plan_send(p, me + bit, me == 0 ? IN(0) : OUT(0), ready);
    if (me == 0)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
}
