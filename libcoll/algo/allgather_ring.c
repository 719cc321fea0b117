/* SPDX-License-Identifier: MIT */
/* Allgather on a ring, in n - 1 rounds.
 *
 *   time   (n - 1) alpha + (n - 1)/n beta bytes
 *   when   long vectors: neighbours only, all links busy
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Rank 2 of 4 sends right to 3, hears from 1, and handles these chunks:
 *
 *   round 0   send 2, receive 1
 *   round 1   send 1, receive 0
 *   round 2   send 0, receive 3
 */
#include "algo/algo.h"

void plan_allgather_ring(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    const int right = (me + 1) % n, left = (me + n - 1) % n;
    struct place mine = IN(me); /* to be sent next... */
    step_id ready = PLAN_START; /* ...once this step has finished */

    plan_init(p, n, 0);
    for (int k = 0; k < n - 1; k++) {
        const int c = (mine.chunk + n - 1) % n;
        const step_id got = plan_recv(p, left, OUT(c), PLAN_START);
        plan_send(p, right, mine, ready);
        ready = got;
        mine = OUT(c);
    }
    plan_copy(p, OUT(me), IN(me), PLAN_START);
}
