/* SPDX-License-Identifier: MIT */
/* Allreduce in rank order, in two rounds: every rank combines one chunk for
 * all.
 *
 *   time   2 alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   long vectors whose result must not depend on who adds what first
 *   order  in pairs (op/op.h), rounded once
 *   from   allreduce_direct_scatter.c, whose sums are rounded one by one
 *
 * Rank 1 of 4:
 *
 *   round 0   sends chunk 2 to 2, 3 to 3, 0 to 0; hears its chunk 1 from all
 *   round 1   sends what chunk 1 comes to to all; hears theirs
 *
 * A rank hears a vector but for its own chunk, and has that much scratch.
 */
#include "algo/algo.h"
#include "algo/in_order.h"
#include "algo/parts.h"

static struct place mine(const struct exchange *x, int peer)
{
    (void)peer;
    return x->mine;
}

static struct place theirs(const struct exchange *x, int peer)
{
    (void)x;
    return OUT(peer);
}

/* A chunk that comes back holds this rank's share, so the send of it has been
 * read: the receives of the second round need not wait for that. */
void plan_allreduce_in_order_scatter(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    plan_init(p, n, n - 1);
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    const step_id ready = plan_combine_slices(p, s, OUT(me));
    const struct exchange x = {
        {0, 1, n},
        me, OUT(me), mine, theirs
    };
    plan_exchange(p, &x, ready);
}
