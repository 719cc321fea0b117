/* SPDX-License-Identifier: MIT */
/* Allreduce on a ring: reduce-scatter, then allgather, each in n - 1 rounds.
 *
 *   time   2 (n - 1) alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   long vectors: every link always carries a chunk, none twice
 *   order  chunk c is summed from rank c upward, so a run repeats bit for bit
 *   from   Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
 *          clusters of workstations", JPDC 69(2), 2009
 *
 * Rank 2 of 4 sends right to 3, hears from 1, and handles these chunks:
 *
 *   round    reduce-scatter          allgather
 *     0      send 2, reduce 1        send 3, receive 2
 *     1      send 1, reduce 0        send 2, receive 1
 *     2      send 0, reduce 3        send 1, receive 0
 */
#include "algo/algo.h"

void plan_allreduce_ring(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks;
    const int right = (s->rank + 1) % n, left = (s->rank + n - 1) % n;
    int c = s->rank;            /* the chunk to send next... */
    step_id ready = PLAN_START; /* ...once this step has finished */

    plan_init(p, n, 1);
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }

    for (int k = 0; k < n - 1; k++) {
        const int before = (c + n - 1) % n;
        const step_id got = plan_recv(p, left, TMP(before, 0), PLAN_START);
        plan_send(p, right, k == 0 ? IN(c) : OUT(c), ready);
        ready = plan_reduce(p, OUT(before), IN(before), TMP(before, 0), got);
        c = before;
    }

    /* A chunk that comes back holds this rank's share, so the earlier send of
     * it has been read: the receives below need not wait for that send. */
    for (int k = 0; k < n - 1; k++) {
        const int before = (c + n - 1) % n;
        const step_id got = plan_recv(p, left, OUT(before), PLAN_START);
        plan_send(p, right, OUT(c), ready);
        ready = got;
        c = before;
    }
}
