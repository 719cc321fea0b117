/* SPDX-License-Identifier: MIT */
#include "algo/rounds.h"

#include "plan/mirror.h"

/* The steps with which a segment's last round was added: [from, to). */
struct steps {
    step_id from, to;
};

struct state {
    const struct rounds *rounds;
    struct plan *plan;
    struct steps last[PLAN_SEGMENTS_MAX];
    step_id ready[PLAN_SEGMENTS_MAX]; /* when all heard before has come */
};

/* What was heard in the round before has come. */
static void await(struct state *s, int segment, struct steps before)
{
    for (step_id i = before.from; i < before.to; i++)
        if (s->plan->steps[i].kind == PLAN_RECV)
            s->ready[segment] = s->ready[segment] == PLAN_START
                                    ? i
                                    : plan_join(s->plan, s->ready[segment], i);
}

static void add(struct state *s, int round, int segment, int lane, bool sends)
{
    s->rounds->add(s->rounds->what, s->plan, round, segment, lane, sends,
                   sends ? s->ready[segment] : PLAN_START);
}

static int lanes_of(const struct state *s, int round)
{
    return s->rounds->nlanes(s->rounds->what, round);
}

static void all_at_once(struct state *s, int tick, int from, int to)
{
    struct steps before[PLAN_SEGMENTS_MAX];
    for (int round = from; round <= to; round++) {
        const int segment = tick - round;
        before[segment] = s->last[segment];
        s->last[segment].from = s->plan->nsteps;
        for (int lane = 0; lane < lanes_of(s, round); lane++)
            add(s, round, segment, lane, false);
        s->last[segment].to = s->plan->nsteps;
    }
    for (int round = from; round <= to; round++) {
        await(s, tick - round, before[tick - round]);
        for (int lane = 0; lane < lanes_of(s, round); lane++)
            add(s, round, tick - round, lane, true);
    }
    plan_end_round(s->plan);
}

static void lane_by_lane(struct state *s, int tick, int from, int to)
{
    for (int round = from; round <= to; round++) {
        const int segment = tick - round;
        await(s, segment, s->last[segment]);
        s->last[segment].from = s->plan->nsteps;
        for (int lane = 0; lane < lanes_of(s, round); lane++) {
            add(s, round, segment, lane, false);
            add(s, round, segment, lane, true);
            plan_end_round(s->plan);
        }
        s->last[segment].to = s->plan->nsteps;
    }
}

void plan_rounds(struct plan *p, const struct rounds *r)
{
    struct state s = {.rounds = r, .plan = p};
    for (int segment = 0; segment < r->segments; segment++)
        s.ready[segment] = PLAN_START;
    for (int tick = 0; tick < r->nrounds + r->segments - 1; tick++) {
        /* The first round that a segment is in, and the last. */
        const int from = tick < r->segments ? 0 : tick - r->segments + 1;
        const int to = tick < r->nrounds ? tick : r->nrounds - 1;
        (r->lane_by_lane ? lane_by_lane : all_at_once)(&s, tick, from, to);
    }
}
