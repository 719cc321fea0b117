/* SPDX-License-Identifier: MIT */
/* Alltoall in n - 1 rounds, in each of which every rank sends one chunk and
 * hears one.
 *
 *   time   (n - 1) alpha + (n - 1)/n beta bytes
 *   when   long vectors on many ranks: no port has two messages at once
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Rank 1 of 4; a message is awaited from the start of the round before:
 *
 *   round 1   sends 2 to rank 2   hears 0 from rank 0
 *   round 2   sends 3 to rank 3   hears 3 from rank 3
 *   round 3   sends 0 to rank 0   hears 2 from rank 2
 */
#include "algo/algo.h"

void plan_alltoall_pairwise(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    step_id got = PLAN_START, ready = PLAN_START;

    plan_init(p, n, 0);
    for (int k = 0; k < n; k++) {
        const int to = (me + k) % n, next = (me + n - k - 1) % n;
        const step_id sent = k > 0 ? plan_send(p, to, IN(to), ready)
                                   : plan_copy(p, OUT(me), IN(me), ready);
        const step_id before = got;
        got = k < n - 1 ? plan_recv(p, next, OUT(next), PLAN_START) : got;
        ready = k < n - 1 ? plan_join(p, before, sent) : ready;
    }
}
