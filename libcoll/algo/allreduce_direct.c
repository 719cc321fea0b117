/* SPDX-License-Identifier: MIT */
/* Allreduce in one round: every rank sends its vector to every other.
 *
 *   time   alpha + (n - 1) (beta + gamma) bytes
 *   when   short vectors on few ranks: nothing waits for anything but the one
 *          message from each
 *   order  from rank 0 upward, at every rank: all get the same bits
 *   from   Hoefler and Moor, "Energy, memory, and runtime tradeoffs for
 *          implementing collective communication operations", JSFI 1(2), 2014
 *
 * Rank 1 of 4 hears from those below it and sends to those above, nearest
 * first, so that nobody is the first target of two:
 *
 *   receives   from 0, 3, 2
 *   sends      to 2, 3, 0
 *   adds       0 + 1 + 2 + 3
 */
#include "algo/algo.h"
#include "algo/parts.h"

/* So many receives, then so many sends: the executor's window holds both, so
 * each batch is under way at all ranks once the batches before it are over. */
enum { BATCH = 31 };

static int batch_end(const struct exchange *x, int first)
{
    return first + BATCH < x->team.n ? first + BATCH : x->team.n;
}

static int member(const struct exchange *x, int peer)
{
    return x->team.first + peer * x->team.stride;
}

step_id plan_exchange(struct plan *p, const struct exchange *x, step_id ready)
{
    const step_id first = p->nsteps;
    const int n = x->team.n;
    for (int batch = 1; batch < n; batch = batch_end(x, batch)) {
        for (int i = batch; i < batch_end(x, batch); i++) {
            const int peer = (x->me + n - i) % n;
            plan_recv(p, member(x, peer), x->heard(x, peer), PLAN_START);
        }
        for (int i = batch; i < batch_end(x, batch); i++) {
            const int peer = (x->me + i) % n;
            plan_send(p, member(x, peer), x->sent(x, peer), ready);
        }
    }
    return first;
}

/* The step of the i-th peer heard, from 0, is behind those of whole batches. */
static step_id step_of(step_id first, int i)
{
    return first + 2 * (i / BATCH * BATCH) + i % BATCH;
}

step_id exchange_heard(const struct exchange *x, step_id first, int peer)
{
    const int n = x->team.n;
    return step_of(first, (x->me + n - peer) % n - 1);
}

step_id exchange_sent(const struct exchange *x, step_id first, int peer)
{
    const int n = x->team.n, i = (peer + n - x->me) % n - 1;
    const int batch = i / BATCH * BATCH + 1;
    return step_of(first, i) + batch_end(x, batch) - batch;
}

static struct place whole(const struct exchange *x, int peer)
{
    (void)peer;
    return x->mine;
}

/* The sum begins with member 0, so that one's goes where the sum will be. */
static struct place slot_of(const struct exchange *x, int peer)
{
    (void)x;
    return peer == 0 ? SUM(0) : TMP(0, peer - 1);
}

step_id plan_exchange_and_add(struct plan *p, struct team team, int me,
                              struct place mine, step_id ready)
{
    const struct exchange x = {team, me, mine, whole, slot_of};
    const step_id first = plan_exchange(p, &x, ready);
    struct place sum = me == 0 ? mine : SUM(0);
    step_id done = me == 0 ? ready : exchange_heard(&x, first, 0);

    for (int i = 1; i < team.n; i++) {
        const bool last = i == team.n - 1;
        const struct place next = i == me ? mine : slot_of(&x, i);
        if (i != me)
            done = plan_join(p, done, exchange_heard(&x, first, i));
        /* The sum may go where it was sent from, so it waits for the sends. */
        for (int peer = 0; last && peer < team.n; peer++)
            if (peer != me)
                done = plan_join(p, done, exchange_sent(&x, first, peer));
        done = plan_reduce(p, last ? OUT(0) : SUM(0), sum, next, done);
        sum = SUM(0);
    }
    return done;
}

void plan_allreduce_direct(struct plan *p, const struct plan_shape *s)
{
    plan_init(p, 1, s->nranks - 1);
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    else
        plan_exchange_and_add(p, (struct team){0, 1, s->nranks}, s->rank, IN(0),
                              PLAN_START);
}
