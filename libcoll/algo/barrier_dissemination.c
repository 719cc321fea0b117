/* SPDX-License-Identifier: MIT */
/* Barrier by dissemination: in round k everybody tells the rank 2^k further on
 * that 2^(k + 1) ranks have come.
 *
 *   time   ceil(log2 n) alpha
 *   when   a processor for each rank
 *   from   Hensgen, Finkel and Manber, "Two algorithms for barrier
 *          synchronization", Int. J. Parallel Programming 17(1), 1988
 *
 * Rank 1 of 5:
 *
 *   round 0   tells rank 2, hears rank 0: 0 1 have come
 *   round 1   tells rank 3, hears rank 4: 3 4 0 1 have come
 *   round 2   tells rank 0, hears rank 2: all have come
 *
 * A message is the vector, which is one byte long; what is in it is not read.
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_dissemination(struct plan *p, const struct plan_shape *s, int radix)
{
    const int n = s->nranks, me = s->rank;
    step_id ready = PLAN_START;

    plan_init(p, 1, radix - 1);
    for (int distance = 1; distance < n; distance *= radix) {
        const int there = (n - 1) / distance;
        const int peers = there < radix - 1 ? there : radix - 1;
        const step_id first = p->nsteps;
        for (int i = 1; i <= peers; i++)
            plan_recv(p, (me + n - i * distance) % n, TMP(0, i - 1),
                      PLAN_START);
        for (int i = 1; i <= peers; i++)
            plan_send(p, (me + i * distance) % n, IN(0), ready);
        ready = first;
        for (int i = 1; i < peers; i++)
            ready = plan_join(p, ready, first + i);
    }
}

void plan_barrier_dissemination(struct plan *p, const struct plan_shape *s)
{
    plan_dissemination(p, s, 2);
}
