/* SPDX-License-Identifier: MIT */
#include "late.h"

/* The layers between the last call and this one have moved no weights: they
 * have none, or did not run. */
static coll_status move(struct train *t, size_t first, size_t count)
{
    struct strategy *s = &t->strategy;
    const size_t from = t->late.moved, end = first + count;
    const enum part before = breakdown_enter(&t->time, s->part);
    coll_status status = s->ops->arrive(s, first, count);
    breakdown_enter(&t->time, PART_UPDATE);
    if (!status)
        status = update_slice(&t->update, &t->net, t->late.lr, t->late.number,
                              from, end - from);
    breakdown_enter(&t->time, before);
    t->late.moved = end;
    t->late.waits = !status && end < t->net.params.count;
    return status;
}

/* A failure is the strategy's, which the end of this step returns. */
static void need(void *context, size_t first, size_t count)
{
    struct train *t = context;
    if (t->late.waits)
        move(t, first, count);
    else
        t->strategy.ops->arrive(&t->strategy, first, count);
}

void late_open(struct train *t)
{
    t->late.need = (struct net_need){need, t};
    if (t->strategy.listens)
        t->net.need = &t->late.need;
}

bool late_may(const struct train *t, long until)
{
    const long every = t->settings.checkpoint_every, step = t->step + 1;
    return t->strategy.defers && step < t->nsteps && step < until
           && !train_tests(t, step)
           && !(t->settings.checkpoint && every && step % every == 0);
}

void late_leave(struct train *t, double lr, long number)
{
    t->late.waits = true;
    t->late.moved = 0;
    t->late.lr = lr;
    t->late.number = number;
}

coll_status late_catch_up(struct train *t)
{
    return t->late.waits ? move(t, 0, t->net.params.count) : COLL_OK;
}
