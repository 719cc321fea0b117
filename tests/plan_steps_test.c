/* SPDX-License-Identifier: MIT */
/* What can be read off every planner's steps, at every size up to 64 ranks: the
 * buffers that they use, what ranks know of one another after a barrier, and
 * with how many ranks one deals at once. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "plans.h"

enum { MAX_RANKS = 64 };

/* One operand of a step: in bounds, and of what the caller has given. */
static void check_operand(const struct algo *algo, int n, int me,
                          const struct plan *p, const struct step *s, int buf)
{
    const bool own = s->chunk == me && s->nchunks == 1;
    bool may =
        s->chunk >= 0 && s->nchunks > 0 && s->chunk + s->nchunks <= p->nchunks;
    if (buf == PLAN_TMP)
        may &= s->slot >= 0 && s->slot + s->nchunks <= p->nslots;
    else if (buf == PLAN_SUM)
        may &= p->sums;
    else if (buf == PLAN_OUT)
        may &= algo->kind == REDUCE || algo->kind == GATHER ? me == 0
               : gets_part(algo->kind)                      ? own
                                       : algo->kind != BARRIER;
    else
        may &= algo->kind == BROADCAST || algo->kind == SCATTER ? me == 0
               : gives_part(algo->kind)                         ? own
                                                                : true;
    cr_assert(may, "%s, rank %d of %d, step %d", algo->full_name, me, n,
              (int)(s - p->steps));
}

Test(plan_steps, steps_keep_to_the_buffers_that_they_may_use)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS; n++)
            for (int me = 0; me < n && serves(&algos[a], n); me++) {
                struct plan p;
                make_plan(&algos[a], &p, me, n, 4);
                for (int i = 0; i < p.nsteps; i++) {
                    const struct step *s = &p.steps[i];
                    const bool writes =
                        s->kind == PLAN_RECV || s->kind == PLAN_REDUCE
                        || s->kind == PLAN_COMBINE || s->kind == PLAN_COPY;
                    if (s->kind == PLAN_JOIN)
                        continue;
                    if (writes)
                        check_operand(&algos[a], n, me, &p, s, s->dst);
                    if (s->kind != PLAN_RECV)
                        check_operand(&algos[a], n, me, &p, s, s->a);
                    if (s->kind == PLAN_REDUCE)
                        check_operand(&algos[a], n, me, &p, s, s->b);
                    cr_assert(!writes || s->dst != PLAN_IN, "%s writes to IN",
                              algos[a].full_name);
                    if (s->kind == PLAN_SEND || s->kind == PLAN_RECV)
                        cr_assert(s->peer >= 0 && s->peer < n && s->peer != me,
                                  "%s, rank %d of %d: peer %d",
                                  algos[a].full_name, me, n, s->peer);
                }
                plan_free(&p);
            }
}

/* --- Barriers: who is known to have come, when a step starts and ends ------
 */

enum { MAX_STEPS = 64 };

struct knowledge {
    struct plan plan;
    uint64_t start[MAX_STEPS], end[MAX_STEPS];
};

/* The send that a receive, step i of rank r, matches: by posting order. */
static uint64_t told(const struct knowledge *k, int r, int i)
{
    const struct step *steps = k[r].plan.steps;
    const struct knowledge *from = &k[steps[i].peer];
    int nth = 0;
    for (int j = 0; j < i; j++)
        nth += steps[j].kind == PLAN_RECV && steps[j].peer == steps[i].peer;
    for (int j = 0; j < from->plan.nsteps; j++)
        if (from->plan.steps[j].kind == PLAN_SEND
            && from->plan.steps[j].peer == r && nth-- == 0)
            return from->start[j];
    return 0;
}

static uint64_t known_after(const struct knowledge *k, step_id s)
{
    return s == PLAN_START ? 0 : k->end[s];
}

/* One pass over the steps of a rank; whether it learnt anything. */
static bool learn(struct knowledge *k, int r)
{
    struct knowledge *me = &k[r];
    bool learnt = false;
    for (int i = 0; i < me->plan.nsteps; i++) {
        const struct step *s = &me->plan.steps[i];
        const uint64_t start = me->start[i], end = me->end[i];
        me->start[i] = 1ull << r | (i ? me->start[i - 1] : 0)
                       | known_after(me, s->after[0])
                       | known_after(me, s->after[1]);
        me->end[i] = me->start[i] | (s->kind == PLAN_RECV ? told(k, r, i) : 0);
        learnt |= start != me->start[i] || end != me->end[i];
    }
    return learnt;
}

Test(plan_steps, nobody_leaves_a_barrier_before_all_have_come)
{
    static struct knowledge k[MAX_RANKS];
    for (int a = 0; a < nplanned; a++)
        for (int n = 1; n <= MAX_RANKS && algos[a].kind == BARRIER; n++) {
            memset(k, 0, sizeof(k));
            for (int r = 0; r < n; r++) {
                make_plan(&algos[a], &k[r].plan, r, n, 1);
                cr_assert_lt(k[r].plan.nsteps, MAX_STEPS);
            }
            for (bool learnt = true; learnt;) {
                learnt = false;
                for (int r = 0; r < n; r++)
                    learnt |= learn(k, r);
            }
            for (int r = 0; r < n; r++) {
                uint64_t all = 1ull << r;
                for (int i = 0; i < k[r].plan.nsteps; i++)
                    all |= k[r].end[i];
                cr_assert_eq(all, ~0ull >> (64 - n),
                             "%s: rank %d of %d leaves when %lx have come",
                             algos[a].full_name, r, n, (unsigned long)all);
                plan_free(&k[r].plan);
            }
        }
}

/* Connections are made at a rank's first message to another, so all would wait
 * for one rank that all meet first. Callers of rank r as their k-th new peer:
 */
struct meetings {
    int callers[MAX_RANKS][MAX_RANKS]; /* [k][r] */
};

static void meet(struct meetings *m, const struct plan *p)
{
    bool met[MAX_RANKS] = {false};
    int k = 0;
    for (int i = 0; i < p->nsteps; i++) {
        const struct step *s = &p->steps[i];
        if (s->kind != PLAN_SEND || met[s->peer])
            continue;
        met[s->peer] = true;
        m->callers[k++][s->peer]++;
    }
}

static int most_at_once(const struct algo *algo, int n)
{
    static struct meetings m;
    int most = 0;
    m = (struct meetings){.callers = {{0}}};
    for (int r = 0; r < n; r++) {
        struct plan p;
        make_plan(algo, &p, r, n, 1);
        meet(&m, &p);
        plan_free(&p);
    }
    for (int k = 0; k < n; k++)
        for (int r = 0; r < n; r++)
            most = m.callers[k][r] > most ? m.callers[k][r] : most;
    return most;
}

/* As many as a tree's root has children: one of each distance, or in a k-nomial
 * tree k - 1. A reduce or gather is for one rank, which takes its parts from
 * all, and so may a binary block of one. */
static double children(const struct algo *algo, int n)
{
    if (!strcmp(algo->name, "knomial_tree"))
        return 3 * ceil(log(n) / log(4) - 1e-9);
    if (!strcmp(algo->name, "knomial_tree_8"))
        return 7 * ceil(log(n) / log(8) - 1e-9);
    return ceil(log2(n));
}

Test(plan_steps, nobody_is_met_by_all_at_once)
{
    for (int a = 0; a < nplanned; a++)
        for (int n = 3; n <= MAX_RANKS && serves(&algos[a], n); n++)
            if (algos[a].kind != REDUCE && algos[a].kind != GATHER
                && strcmp(algos[a].full_name, "allreduce_binary_blocks"))
                cr_expect_leq(most_at_once(&algos[a], n),
                              children(&algos[a], n), "%s of %d ranks",
                              algos[a].full_name, n);
}
