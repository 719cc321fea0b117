/* SPDX-License-Identifier: MIT */
/* Allreduce by dividing, then multiplying: halving and doubling in groups of up
 * to 4.
 *
 *   time   for n the product of r factors k: 2 r alpha + (n - 1)/n (2 beta +
 *          gamma) bytes; else the ranks above the largest such product fold in
 *          first and get the result last: 2 alpha + (2 beta + gamma) bytes more
 *   when   medium to long vectors: the bytes of halving_doubling in half as
 * many rounds, where a few messages at once take little more than one; fewer
 *          ranks to fold. The largest exchange is at distance 1, so ranks that
 *          are near in number should be near in the network
 *   order  chunk c is summed at its owner, from it downward, then upward; where
 *          nobody folds in, neighbouring runs of ranks are combined
 *   from   Ruefenacht, Bull and Booth, Parallel Computing 69, 2017, for the
 *          rounds (see allreduce_recursive_multiplying.c); Rabenseifner, ICCS
 *          2004, for the halves
 *
 * 12 ranks are 4 * 3, and there are 12 chunks:
 *
 *   divide     in  0 1 2 3   4 5 6 7   8 9 10 11   a quarter from each to each
 *              in  0 4 8   1 5 9   2 6 10   3 7 11   a third of that
 *   multiply   the same teams, the last ones first
 */
#include "algo/algo.h"
#include "algo/parts.h"

/* Of x->mine, cut into a part for each of the team. */
static struct place part_of(const struct exchange *x, int peer)
{
    const int n = x->mine.nchunks / x->team.n;
    return (struct place){x->mine.buf, x->mine.chunk + peer * n, n, 0};
}

static struct place my_part(const struct exchange *x, int peer)
{
    (void)peer;
    return part_of(x, x->me);
}

/* For my part, in the order in which peers are heard. */
static struct place slots_of(const struct exchange *x, int peer)
{
    const struct place mine = part_of(x, x->me);
    const int i = (x->me + x->team.n - peer) % x->team.n - 1;
    return TMP_RUN(mine.chunk, mine.nchunks, i * mine.nchunks);
}

/* The sum of my part goes to OUT: those below me from the nearest down, as they
 * are heard, then those above me upwards. */
static step_id divide(struct plan *p, const struct exchange *x, step_id ready)
{
    const struct place mine = part_of(x, x->me);
    const struct place sum = OUT_RUN(mine.chunk, mine.nchunks);
    const step_id first = plan_exchange(p, x, ready);
    struct place so_far = mine;
    for (int i = 1; i < x->team.n; i++) {
        const bool lower = i <= x->me;
        const int peer = lower ? x->me - i : i;
        const struct place theirs = slots_of(x, peer);
        const step_id heard = exchange_heard(x, first, peer);
        ready = plan_reduce(p, sum, lower ? theirs : so_far,
                            lower ? so_far : theirs,
                            i == 1 ? plan_join(p, ready, heard) : heard);
        so_far = sum;
    }
    return ready;
}

/* A part that comes back holds this rank's share, so the earlier send of it has
 * been read: receives need not wait for that. */
static step_id multiply(struct plan *p, const struct exchange *x, step_id ready)
{
    const step_id first = plan_exchange(p, x, ready);
    for (int peer = 0; peer < x->team.n; peer++)
        if (peer != x->me)
            ready = plan_join(p, ready, exchange_heard(x, first, peer));
    return ready;
}

/* Round by round; window: what this rank holds before round i. */
static void rounds(struct plan *p, const struct factors *f, int me,
                   enum plan_buf from, step_id ready)
{
    struct exchange x[MAX_FACTORS];
    struct place window = {from, 0, f->product, 0};
    int stride = 1;
    for (int i = 0; i < f->n; stride *= f->k[i++]) {
        const int number = me / stride % f->k[i];
        const struct team team = {me - number * stride, stride, f->k[i]};
        x[i] = (struct exchange){team, number, window, part_of, slots_of};
        ready = divide(p, &x[i], ready);
        window = part_of(&x[i], number);
        window.buf = PLAN_OUT;
    }
    for (int i = f->n - 1; i >= 0; i--) {
        x[i].mine.buf = PLAN_OUT;
        x[i].sent = my_part;
        x[i].heard = part_of;
        ready = multiply(p, &x[i], ready);
    }
    if (me < f->extra)
        plan_send(p, me + f->product, OUT_RUN(0, f->product), ready);
}

void plan_dividing(struct plan *p, const struct plan_shape *s, int radix)
{
    const struct factors f = plan_factors(s->nranks, radix);
    const int all = f.product, me = s->rank;
    const int part = all / f.k[0];
    plan_init(p, all, me < f.extra ? all : all - part);
    if (s->nranks == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    if (me >= all) {
        plan_send(p, me - all, IN_RUN(0, all), PLAN_START);
        plan_recv(p, me - all, OUT_RUN(0, all), PLAN_START);
        return;
    }
    if (me >= f.extra) {
        rounds(p, &f, me, PLAN_IN, PLAN_START);
        return;
    }
    const step_id got = plan_recv(p, me + all, TMP_RUN(0, all, 0), PLAN_START);
    rounds(p, &f, me, PLAN_OUT,
           plan_reduce(p, OUT_RUN(0, all), IN_RUN(0, all), TMP_RUN(0, all, 0),
                       got));
}

void plan_allreduce_dividing_multiplying(struct plan *p,
                                         const struct plan_shape *s)
{
    plan_dividing(p, s, 4);
}
