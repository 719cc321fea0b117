/* SPDX-License-Identifier: MIT */
/* Allreduce by recursive doubling: whole vectors at distance 1, 2, 4 ...
 *
 *   time   log2 n (alpha + (beta + gamma) bytes), for n a power of two; else
 *          the ranks above the largest power fold in first and get the result
 *          last: 2 alpha + (2 beta + gamma) bytes more
 *   when   short vectors, where only the number of rounds counts
 *   order  of two partners the lower one's comes first: for n a power of two
 *          neighbouring runs of ranks are combined
 *   from   Thakur, Rabenseifner and Gropp, "Optimization of collective
 *          communication operations in MPICH", IJHPCA 19(1), 2005
 */
#include "algo/algo.h"

void plan_allreduce_recursive_doubling(struct plan *p,
                                       const struct plan_shape *s)
{
    int pow2 = 1;
    while (2 * pow2 <= s->nranks)
        pow2 *= 2;
    const int extra = s->nranks - pow2, me = s->rank;

    plan_init(p, 1, 1);
    if (s->nranks == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    if (me >= pow2) {
        plan_send(p, me - pow2, IN(0), PLAN_START);
        plan_recv(p, me - pow2, OUT(0), PLAN_START);
        return;
    }

    struct place mine = IN(0);
    step_id ready = PLAN_START;
    if (me < extra) {
        const step_id got = plan_recv(p, me + pow2, TMP(0, 0), PLAN_START);
        ready = plan_reduce(p, OUT(0), IN(0), TMP(0, 0), got);
        mine = OUT(0);
    }
    /* The sum goes where it is sent from, so it waits for the send too. */
    for (int bit = 1; bit < pow2; bit *= 2) {
        const step_id got = plan_recv(p, me ^ bit, TMP(0, 0), PLAN_START);
        const step_id sent = plan_send(p, me ^ bit, mine, ready);
        const step_id both = plan_join(p, sent, got);
        ready = me & bit ? plan_reduce(p, OUT(0), TMP(0, 0), mine, both)
                         : plan_reduce(p, OUT(0), mine, TMP(0, 0), both);
        mine = OUT(0);
    }
    if (me < extra)
        plan_send(p, me + pow2, OUT(0), ready);
}
