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
    p->runs |= s.nchunks > 1;
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

step_id plan_combine(struct plan *p, struct place dst,
                     const struct sources *from, step_id after)
{
    struct step s = step_on(PLAN_COMBINE, dst, after);
    assert(dst.buf != PLAN_TMP && from->mine.buf != PLAN_TMP);
    assert(dst.chunk == from->mine.chunk && dst.nchunks == from->mine.nchunks);
    s.dst = dst.buf;
    s.a = s.b = from->mine.buf;
    s.slot = from->slot;
    s.peer = from->me;
    s.nsrc = from->n;
    if (p->combines < from->n)
        p->combines = from->n;
    return append(p, s);
}

step_id plan_join(struct plan *p, step_id x, step_id y)
{
    return append(p, (struct step){
                         .kind = PLAN_JOIN, .after = {x, y}
    });
}

void plan_renumber(struct plan *p, const int *order)
{
    for (int i = 0; i < p->nsteps; i++)
        if (p->steps[i].kind == PLAN_SEND || p->steps[i].kind == PLAN_RECV)
            p->steps[i].peer = order[p->steps[i].peer];
}

step_id plan_append(struct plan *p, const struct plan *other,
                    const int *members, int base, enum plan_buf in,
                    step_id after)
{
    const step_id first = p->nsteps;
    const int slots = p->nslots;
    step_id all = after;
    assert(other->nchunks == p->nchunks);
    p->nslots += other->nslots;
    p->sums |= other->sums;
    if (p->combines < other->combines)
        p->combines = other->combines;
    if (p->status == COLL_OK)
        p->status = other->status;
    for (int i = 0; i < other->nsteps && p->status == COLL_OK; i++) {
        struct step s = other->steps[i];
        const bool moves = s.kind == PLAN_SEND || s.kind == PLAN_RECV;
        if (moves)
            s.peer = members ? members[s.peer] : base + s.peer;
        s.slot += slots;
        s.a = s.kind != PLAN_RECV && s.a == PLAN_IN ? (uint8_t)in : s.a;
        s.b = s.kind == PLAN_REDUCE && s.b == PLAN_IN ? (uint8_t)in : s.b;
        for (int k = 0; k < 2; k++)
            s.after[k] = s.after[k] != PLAN_START ? s.after[k] + first
                         : k == 0                 ? after
                                                  : PLAN_START;
        append(p, s);
    }
    for (step_id i = first, end = p->nsteps; i < end; i++)
        if (p->steps[i].kind != PLAN_SEND && p->steps[i].kind != PLAN_JOIN)
            all = plan_join(p, all, i);
    return all;
}
