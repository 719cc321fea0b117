/* SPDX-License-Identifier: MIT */
#include "algo/in_order.h"

#include "algo/parts.h"

static struct place slice_of(const struct exchange *x, int peer)
{
    (void)x;
    return IN(peer);
}

static struct place whole(const struct exchange *x, int peer)
{
    (void)peer;
    return x->mine;
}

/* In ascending order of position. */
static struct place slot_of(const struct exchange *x, int peer)
{
    return TMP(x->mine.chunk, peer - (peer > x->me));
}

/* Combines once all are heard; with `sent`, also once all is sent. */
static step_id combine(struct plan *p, const struct exchange *x, bool sent,
                       struct place result)
{
    const step_id first = plan_exchange(p, x, PLAN_START);
    const struct sources from = {x->mine, x->me, x->team.n, 0};
    step_id ready = PLAN_START;
    for (int peer = 0; peer < x->team.n; peer++) {
        if (peer == x->me)
            continue;
        ready = plan_join(p, ready, exchange_heard(x, first, peer));
        if (sent)
            ready = plan_join(p, ready, exchange_sent(x, first, peer));
    }
    return plan_combine(p, result, &from, ready);
}

step_id plan_combine_slices(struct plan *p, const struct plan_shape *s,
                            struct place result)
{
    const struct exchange x = {
        {0, 1, s->nranks},
        s->rank, IN(s->rank), slice_of, slot_of
    };
    return combine(p, &x, false, result);
}

/* The result may go where the input is sent from. */
step_id plan_combine_all(struct plan *p, const struct plan_shape *s)
{
    const struct exchange x = {
        {0, 1, s->nranks},
        s->rank, IN(0), whole, slot_of
    };
    return combine(p, &x, true, OUT(0));
}
