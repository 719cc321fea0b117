/* SPDX-License-Identifier: MIT */
#include "algo/rounds.h"

#include "plan/mirror.h"

/* Receives of a segment: steps [from, to). */
struct heard {
    step_id from, to;
};

static step_id all_of(struct plan *p, step_id ready, struct heard h)
{
    for (step_id i = h.from; i < h.to; i++)
        ready = ready == PLAN_START ? i : plan_join(p, ready, i);
    return ready;
}

void plan_rounds(struct plan *p, const struct rounds *r)
{
    struct heard before[PLAN_SEGMENTS_MAX], now[PLAN_SEGMENTS_MAX] = {0};
    step_id ready[PLAN_SEGMENTS_MAX]; /* when all heard before has come */
    for (int segment = 0; segment < r->segments; segment++)
        ready[segment] = PLAN_START;
    for (int tick = 0; tick < r->nrounds + r->segments - 1; tick++) {
        /* The first round that a segment is in, and the last. */
        const int from = tick < r->segments ? 0 : tick - r->segments + 1;
        const int to = tick < r->nrounds ? tick : r->nrounds - 1;
        for (int round = from; round <= to; round++) {
            const int segment = tick - round;
            before[segment] = now[segment];
            now[segment].from = p->nsteps;
            r->add(r->what, p, round, segment, false, PLAN_START);
            now[segment].to = p->nsteps;
        }
        for (int round = from; round <= to; round++) {
            const int segment = tick - round;
            ready[segment] = all_of(p, ready[segment], before[segment]);
            r->add(r->what, p, round, segment, true, ready[segment]);
        }
        plan_end_round(p);
    }
}
