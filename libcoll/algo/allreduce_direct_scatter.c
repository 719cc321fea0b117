/* SPDX-License-Identifier: MIT */
/* Allreduce in two rounds: every rank sums one chunk for all.
 *
 *   time   2 alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   medium vectors on few ranks, where the network lets all pairs
 *          talk at once: a ring's traffic in two rounds
 *   order  chunk c is summed from rank c downward, at rank c
 *   from   Hoefler and Moor, JSFI 1(2), 2014, see allreduce_direct.c
 *
 * Rank 1 of 4:
 *
 *   round 0   sends chunk 2 to 2, 3 to 3, 0 to 0; hears its chunk 1 from all
 *   round 1   sends the sum of chunk 1 to all; hears theirs
 */
#include "algo/algo.h"
#include "algo/parts.h"

static struct place their_chunk(const struct exchange *x, int peer)
{
    return (struct place){x->mine.buf, peer, 1, 0};
}

static struct place my_chunk(const struct exchange *x, int peer)
{
    (void)peer;
    return x->mine;
}

/* Of my chunk, in the order in which peers are heard. */
static struct place slot_of(const struct exchange *x, int peer)
{
    const int n = x->team.n;
    return TMP(x->me, (x->me + n - peer) % n - 1);
}

void plan_allreduce_direct_scatter(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    const struct team all = {0, 1, n};
    const struct exchange scatter = {all, me, IN(me), their_chunk, slot_of};
    const struct exchange gather = {all, me, OUT(me), my_chunk, their_chunk};

    plan_init(p, n, n - 1);
    if (n == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    const step_id first = plan_exchange(p, &scatter, PLAN_START);
    struct place sum = IN(me);
    step_id ready = PLAN_START;
    for (int i = 1; i < n; i++) {
        const int peer = (me + n - i) % n;
        ready = plan_reduce(p, OUT(me), sum, slot_of(&scatter, peer),
                            exchange_heard(&scatter, first, peer));
        sum = OUT(me);
    }
    /* A chunk that comes back holds this rank's share, so the earlier send of
     * it has been read: receives need not wait for that. */
    plan_exchange(p, &gather, ready);
}
