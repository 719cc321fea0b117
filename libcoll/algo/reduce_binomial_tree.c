/* SPDX-License-Identifier: MIT */
/* Reduce on a binomial tree.
 *
 *   time   ceil(log2 n) (alpha + (beta + gamma) bytes)
 *   when   short vectors: log2 n rounds
 *   order  a rank adds its children in the order of their distance
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Six ranks; a rank sends to its parent once it has heard all its children:
 *
 *          0
 *        / | \
 *       4  2  1
 *       |  |
 *       5  3
 */
#include "algo/algo.h"

void plan_reduce_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    const struct place sum = me == 0 ? OUT(0) : SUM(0);
    struct place mine = IN(0);
    step_id ready = PLAN_START;
    int bit = 1;

    plan_init(p, 1, 1);
    if (n == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    for (; bit < n && !(me & bit); bit *= 2)
        if (me + bit < n) {
            const step_id got = plan_recv(p, me + bit, TMP(0, 0), PLAN_START);
            ready = plan_reduce(p, sum, mine, TMP(0, 0), got);
            mine = sum;
        }
    if (me > 0)
        plan_send(p, me - bit, mine, ready);
}
