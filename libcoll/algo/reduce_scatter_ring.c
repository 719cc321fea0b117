/* SPDX-License-Identifier: MIT */
/* Reduce-scatter on a ring, in n - 1 rounds.
 *
 *   time   (n - 1) alpha + (n - 1)/n (beta + gamma) bytes
 *   when   long vectors: neighbours only, all links busy
 *   order  chunk c is summed from rank c + 1 upward and ends at rank c
 *   from   Patarasuk and Yuan, JPDC 69(2), 2009
 *
 * Rank 2 of 4 sends right to 3, hears from 1, and handles these chunks:
 *
 *   round 0   send 1, reduce 0
 *   round 1   send 0, reduce 3
 *   round 2   send 3, reduce 2
 */
#include "algo/algo.h"

void plan_reduce_scatter_ring(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    const int right = (me + 1) % n, left = (me + n - 1) % n;
    struct place mine = IN(left); /* to be sent next... */
    step_id ready = PLAN_START;   /* ...once this step has finished */
    step_id sent = PLAN_START;

    plan_init(p, n, 2);
    if (n == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);

    /* Partial sums stay in two slots by turns: the input must not change. */
    for (int k = 0; k < n - 1; k++) {
        const int c = (mine.chunk + n - 1) % n;
        const struct place heard = TMP(c, k % 2);
        const struct place sum = k == n - 2 ? OUT(c) : heard;
        const step_id got = plan_recv(p, left, heard, sent);
        sent = plan_send(p, right, mine, ready);
        ready = plan_reduce(p, sum, IN(c), heard, got);
        mine = sum;
    }
}
