/* SPDX-License-Identifier: MIT */
#include "plan/plan.h"

#include <assert.h>
#include <stdlib.h>

void plan_init(struct plan *p, int nchunks, int nslots)
{
    *p = (struct plan){.nchunks = nchunks, .nslots = nslots};
}

void plan_free(struct plan *p)
{
    free(p->steps);
    *p = (struct plan){0};
}

static step_id append(struct plan *p, struct step s)
{
    if (p->status != COLL_OK)
        return PLAN_START;
    assert(s.chunk >= 0 && s.chunk + s.nchunks <= p->nchunks);
    if (p->nsteps == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 16;
        struct step *steps =
            realloc(p->steps, (size_t)capacity * sizeof(*steps));
        if (!steps) {
            p->status = COLL_ERR_MEMORY;
            return PLAN_START;
        }
        p->steps = steps;
        p->capacity = capacity;
    }
    p->sums |= s.dst == PLAN_SUM || s.a == PLAN_SUM || s.b == PLAN_SUM;
    p->steps[p->nsteps] = s;
    return p->nsteps++;
}

static struct step step_on(enum plan_kind kind, struct place run, step_id after)
{
    return (struct step){
        .kind = (uint8_t)kind,
        .chunk = run.chunk,
        .nchunks = run.nchunks,
        .slot = run.slot,
        .after = {after, PLAN_START},
    };
}

/* Takes the slot of another operand of the step, if that has one. */
static void share_slot(struct step *s, struct place place)
{
    assert(s->dst != PLAN_TMP || place.buf != PLAN_TMP
           || s->slot == place.slot);
    s->slot = place.buf == PLAN_TMP ? place.slot : s->slot;
}

step_id plan_send(struct plan *p, int peer, struct place src, step_id after)
{
    struct step s = step_on(PLAN_SEND, src, after);
    s.a = src.buf;
    s.peer = peer;
    return append(p, s);
}

step_id plan_recv(struct plan *p, int peer, struct place dst, step_id after)
{
    struct step s = step_on(PLAN_RECV, dst, after);
    s.dst = dst.buf;
    s.peer = peer;
    return append(p, s);
}

step_id plan_copy(struct plan *p, struct place dst, struct place src,
                  step_id after)
{
    struct step s = step_on(PLAN_COPY, dst, after);
    assert(dst.chunk == src.chunk && dst.nchunks == src.nchunks);
    s.dst = dst.buf;
    s.a = src.buf;
    share_slot(&s, src);
    return append(p, s);
}

step_id plan_reduce(struct plan *p, struct place dst, struct place a,
                    struct place b, step_id after)
{
    struct step s = step_on(PLAN_REDUCE, dst, after);
    assert(dst.chunk == a.chunk && dst.nchunks == a.nchunks);
    assert(dst.chunk == b.chunk && dst.nchunks == b.nchunks);
    s.dst = dst.buf;
    s.a = a.buf;
    s.b = b.buf;
    share_slot(&s, a);
    share_slot(&s, b);
    return append(p, s);
}

step_id plan_join(struct plan *p, step_id x, step_id y)
{
    return append(p, (struct step){
                         .kind = PLAN_JOIN, .after = {x, y}
    });
}

void plan_turn(struct plan *p, int root, int nranks)
{
    for (int i = 0; i < p->nsteps; i++)
        p->steps[i].peer = (p->steps[i].peer + root) % nranks;
}
