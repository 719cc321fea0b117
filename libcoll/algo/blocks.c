/* SPDX-License-Identifier: MIT */
#include "algo/blocks.h"

enum { AHEAD = 31 }; /* receives: half of the executor's window */

struct circle circle_of(const struct plan_shape *s)
{
    struct circle c = {.groups = groups_of(s)};
    c.d = c.groups.depth - 1;
    c.n = groups_count(&c.groups, c.d);
    c.mine = groups_find(&c.groups, c.d, s->rank);
    c.here = groups_span(&c.groups, c.d, c.mine);
    c.me = s->rank - c.here.from;
    return c;
}

struct range circle_host(const struct circle *c, int distance)
{
    return groups_span(&c->groups, c->d, (c->mine + c->n + distance) % c->n);
}

int range_size(struct range r)
{
    return r.to - r.from;
}

int blocks_messages(const struct plan *p, int n)
{
    return (n + p->nchunks - 1) / p->nchunks;
}

static int length(const struct plan *p, int n, int message)
{
    const int left = n - message * p->nchunks;
    return left < p->nchunks ? left : p->nchunks;
}

void blocks_send(struct plan *p, int peer, int slot, int n, int message,
                 step_id ready)
{
    plan_send(p, peer,
              TMP_RUN(0, length(p, n, message), slot + message * p->nchunks),
              ready);
}

void blocks_recv(struct plan *p, int peer, int slot, int n, int message)
{
    plan_recv(p, peer,
              TMP_RUN(0, length(p, n, message), slot + message * p->nchunks),
              PLAN_START);
}

step_id blocks_move(struct plan *p, int slot, int to, int n, step_id ready)
{
    ready = plan_copy(p, SUM_RUN(0, n), TMP_RUN(0, n, slot), ready);
    return plan_copy(p, TMP_RUN(0, n, to), SUM_RUN(0, n), ready);
}

void stages_next(struct stages *s)
{
    s->first = s->plan->nsteps;
}

/* Steps start as they are written, so this is written as late as can be. */
step_id stages_await(struct stages *s)
{
    for (; s->awaited < s->first; s->awaited++)
        if (s->plan->steps[s->awaited].kind == PLAN_RECV)
            s->ready = plan_join(s->plan, s->ready, s->awaited);
    return s->ready;
}

/* Turn i is told once all turns before it are over, whatever they wait for;
 * then what was posted for later turns leaves room for its receives. */
void blocks_exchange(const struct turns *t)
{
    int heard = 1, ahead = 0;
    for (int i = 1; i < t->n; i++) {
        while (heard < t->n && ahead + t->count(t->context, heard) <= AHEAD) {
            ahead += t->count(t->context, heard);
            t->hear(t->context, heard++);
        }
        t->tell(t->context, i);
        if (heard == i)
            t->hear(t->context, heard++);
        else
            ahead -= t->count(t->context, i);
    }
}
