/* SPDX-License-Identifier: MIT */
/* Alltoall in one round: every rank sends each other its chunk at once.
 *
 *   time   alpha + (n - 1)/n beta bytes
 *   when   few ranks
 *
 * Rank 1 of 4 sends to those above it and hears from those below, nearest
 * first, so that nobody is the first target of two.
 */
#include "algo/algo.h"
#include "algo/parts.h"

static struct place sent(const struct exchange *x, int peer)
{
    (void)x;
    return IN(peer);
}

static struct place heard(const struct exchange *x, int peer)
{
    (void)x;
    return OUT(peer);
}

void plan_alltoall_direct(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    const struct exchange x = {
        {0, 1, n},
        me, IN(me), sent, heard
    };

    plan_init(p, n, 0);
    plan_exchange(p, &x, PLAN_START);
    plan_copy(p, OUT(me), IN(me), PLAN_START);
}
