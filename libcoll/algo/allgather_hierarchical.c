/* SPDX-License-Identifier: MIT */
/* Allgather level by level: every rank fetches its share of the other groups.
 *
 *   time   about a message over each level's link; and for groups of g:
 *          (1 - 1/G) beta_outside bytes through a group's link, shared by its
 *          ranks, then (n - 1)/n beta_inside bytes
 *   when   ranks in groups with slow links between, where the groups are runs
 *          of ranks: each part enters each other group once
 *   from   multi-lane collectives: Traeff and Hunold, "Decomposing MPI
 *          collectives for exploiting multi-lane communication", CLUSTER 2020
 *
 * Two groups of two, ranks 0 1 | 2 3; who sends which chunk:
 *
 *   phase 0   own chunks, to the other group and inside: 0 sends 0 to 2 and 1
 *   phase 1   what came from the other group, inside: 0 sends 2 to 1
 *
 * So what stays inside need not wait for what crosses. With more levels, phase
 * a passes on what came over level a - 1 to the groups of level a and inward.
 * Groups need not be alike: member i of m sends to member i k / m of k. A rank
 * hears each chunk in a message of its own, unless neighbours come together.
 * Without groups it is one phase, all to all, and on more than 16 ranks, where
 * that is too many messages, Bruck's.
 */
#include "algo/algo.h"
#include "algo/groups.h"
#include "plan/mirror.h"

/* Runs of chunks from a rank to another before the next one's turn, and about
 * those of a round of the mirror: what all ranks post at once must fit the
 * executor's window. */
enum { BATCH = 16 };

/* Runs [from, to) of a list, to be added to the plan. */
struct batch {
    struct plan *plan;
    int peer;
    bool sends;
    step_id ready;
    int from, to, seen;
    struct place run;
};

static void end_run(struct batch *b)
{
    if (b->run.nchunks > 0 && b->seen >= b->from && b->seen < b->to) {
        if (b->sends)
            plan_send(b->plan, b->peer, b->run, b->ready);
        else
            plan_recv(b->plan, b->peer, b->run, PLAN_START);
    }
    b->seen += b->run.nchunks > 0;
    b->run.nchunks = 0;
}

static void add_chunk(struct batch *b, int chunk)
{
    if (b->run.nchunks > 0 && chunk == b->run.chunk + b->run.nchunks) {
        b->run.nchunks++;
        return;
    }
    end_run(b);
    b->run = OUT_RUN(chunk, 1);
}

/* What position x hears over level d - 1, or its own chunk if d is 0. */
static void list_new(const struct groups *t, int d, int x, struct batch *b);

/* What x has when it has heard over the levels before d. */
static void list_all(const struct groups *t, int d, int x, struct batch *b)
{
    for (int e = 0; e <= d; e++)
        list_new(t, e, x, b);
}

static void list_new(const struct groups *t, int d, int x, struct batch *b)
{
    if (d == 0) {
        add_chunk(b, x);
        return;
    }
    const int mine = groups_find(t, d - 1, x);
    const struct range to = groups_span(t, d - 1, mine);
    const struct range all = groups_siblings(t, d - 1, mine);
    for (int g = all.from; g < all.to; g++) {
        const struct range from = groups_peers(groups_span(t, d - 1, g), to, x);
        for (int y = from.from; g != mine && y < from.to; y++)
            list_all(t, d - 1, y, b);
    }
}

/* --- The plan of one position. */

struct job {
    struct plan *plan;
    struct groups groups;
    int me, age; /* the phase */
    int told;    /* steps before the round */
    bool ready;  /* what it passes on has come, once `after` has finished */
    step_id after;
    struct range steps[PLAN_LEVELS + 1][PLAN_LEVELS + 1]; /* of phase, level */
};

/* What position x has new, in one batch, as steps of this rank. Whether there
 * is more. */
static bool move(const struct job *j, int x, struct batch b)
{
    list_new(&j->groups, j->age, x, &b);
    end_run(&b);
    return b.seen > b.to;
}

/* Waits for what came over the level before the phase, in all phases. */
static void await(struct job *j)
{
    const int d = j->age - 1;
    for (int age = 0; age <= d && !j->ready; age++)
        for (step_id i = j->steps[age][d].from; i < j->steps[age][d].to; i++)
            if (j->plan->status == COLL_OK
                && j->plan->steps[i].kind == PLAN_RECV)
                j->after = plan_join(j->plan, j->after, i);
    j->ready = true;
}

static void end_round(struct job *j, int least)
{
    if (j->plan->nsteps - j->told < least)
        return;
    plan_end_round(j->plan);
    j->told = j->plan->nsteps;
}

/* Hears from the group i before in level d, tells the group i behind. Whether
 * there is another batch. */
static bool exchange(struct job *j, int d, int i, int batch)
{
    const struct groups *t = &j->groups;
    const int mine = groups_find(t, d, j->me);
    const struct range all = groups_siblings(t, d, mine);
    const int n = all.to - all.from, at = mine - all.from;
    const struct range here = groups_span(t, d, mine);
    const struct range before = groups_span(t, d, all.from + (at + n - i) % n);
    const struct range behind = groups_span(t, d, all.from + (at + i) % n);
    const struct range from = groups_peers(before, here, j->me);
    struct batch b = {.plan = j->plan, .from = batch * BATCH};
    bool more = false;
    b.to = b.from + BATCH;
    for (b.peer = from.from; b.peer < from.to; b.peer++)
        more |= move(j, b.peer, b);
    await(j);
    b.sends = true;
    b.ready = j->after;
    b.peer = groups_peer(here, behind, j->me);
    more |= move(j, j->me, b);
    end_round(j, 2 * BATCH);
    return more;
}

static void exchange_all(struct job *j, int d)
{
    const struct range all =
        groups_siblings(&j->groups, d, groups_find(&j->groups, d, j->me));
    struct range *steps = &j->steps[j->age][d];
    steps->from = j->plan->nsteps;
    for (int i = 1; i < all.to - all.from; i++)
        for (int batch = 0; exchange(j, d, i, batch);)
            batch++;
    steps->to = j->plan->nsteps;
}

void plan_allgather_hierarchical(struct plan *p, const struct plan_shape *s)
{
    struct job j = {.plan = p, .groups = groups_of(s), .me = s->rank};
    if (j.groups.depth == 0 && !few_ranks(s)) {
        plan_allgather_bruck(p, s);
        return;
    }
    plan_init(p, s->nranks, 0);
    j.after = plan_copy(p, OUT(s->rank), IN(s->rank), PLAN_START);
    for (; j.age <= j.groups.depth; j.age++) {
        j.ready = false;
        for (int d = j.age; d <= j.groups.depth; d++)
            exchange_all(&j, d);
        end_round(&j, 1);
    }
}
