/* SPDX-License-Identifier: MIT */
/* Allreduce on a binomial tree: reduce up to rank 0, then broadcast down.
 *
 *   time   2 ceil(log2 n) (alpha + beta bytes) + ceil(log2 n) gamma bytes
 *   when   short vectors; only 2 (n - 1) messages in the whole job
 *   order  a rank adds its children in the order of their distance
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 */
#include "algo/algo.h"

void plan_allreduce_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    struct place mine = IN(0);
    step_id ready = PLAN_START;
    int bit = 1;

    plan_init(p, 1, 1);
    for (; bit < n && !(me & bit); bit *= 2)
        if (me + bit < n) {
            const step_id got = plan_recv(p, me + bit, TMP(0, 0), PLAN_START);
            ready = plan_reduce(p, OUT(0), mine, TMP(0, 0), got);
            mine = OUT(0);
        }
    if (n == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    if (me > 0) {
        plan_send(p, me - bit, mine, ready);
        ready = plan_recv(p, me - bit, OUT(0), PLAN_START);
    }
    /* One after another: the child that has most to pass on comes first and has
     * the port to itself. */
    for (bit /= 2; bit >= 1; bit /= 2)
        if (me + bit < n)
            ready = plan_send(p, me + bit, OUT(0), ready);
}
