/* SPDX-License-Identifier: MIT */
/* Broadcast level by level: every rank carries its slice to the next group.
 *
 *   time   with many segments: beta_outside bytes through a group's link,
 *          which its ranks share, and (1 + 1/g) beta_inside bytes through the
 *          root's port for groups of g; without groups beta bytes
 *   when   long vectors on many ranks, above all in groups with slow links
 *          between: each byte enters each group once
 *   from   slices across: Cho et al., "BlueConnect", MLSys 2019; scatter and
 *          gather: Barnett et al., "InterCom", SHPCC 1994; the gather of long
 *          columns is Bruck's
 *
 * Two groups of two, ranks 0 1 | 2 3, halves A B; what happens in time:
 *
 *   scatter inside     0 sends B to 1
 *   scatter between    0 sends A to 2, 1 sends B to 3
 *   gather inside      0 sends A to 1, 2 sends A to 3, 3 sends B to 2
 *
 * Between three groups and more a column, the ranks that carry one slice, cuts
 * it up further: the one in the root's group deals it to the others, who gather
 * it among them. In the root's group the root deals likewise: to each its
 * slice, which that carries on, and a piece of the slice that the root carries.
 * So the root sends each byte once, as all others do at most.
 *
 * Segments follow one another through the rounds. lanes.h has groups of other
 * sizes and of any depth.
 */
#include "algo/algo.h"
#include "algo/lanes.h"
#include "algo/rounds.h"

/* Columns up to this long gather in one round. */
enum { AT_ONCE = 60 }; /* transfers: less than the executor's window */
enum { DIRECT = 8, FINEST = 8, MAX_ROUNDS = 34 * LANES_STAGES };

enum act { SCATTERING, GATHERING, DOUBLING };

struct job {
    struct lanes lanes;
    int fine; /* chunks of the plan for each of lanes */
    int nchunks, nrounds;
    enum plan_buf mine; /* what it sends is there */
    struct {
        enum act act;
        int d, have; /* stage of lanes; members' items that a member has */
    } round[MAX_ROUNDS];
};

/* Ranks that get the same windows of one segment. In the root's column member 0
 * has all from the start, and deals `rest` to the others in pieces. */
struct column {
    const struct job *job;
    int d, n, me, shift;
    bool roots;
    struct lane_path path;
    struct place rest;
};

/* Parts of members [q, q + n). */
static struct place parts(const struct column *c, int q, int n)
{
    const struct lanes *l = &c->job->lanes;
    const struct lane_part from = lanes_part(l, c->d, &c->path, q);
    const struct lane_part to = lanes_part(l, c->d, &c->path, q + n - 1);
    return OUT_RUN(from.chunk * c->job->fine + c->shift,
                   (to.chunk + to.nchunks - from.chunk) * c->job->fine);
}

/* Pieces of members [q, q + n), of which none is the root's. */
static struct place pieces(const struct column *c, int q, int n)
{
    const int64_t all = c->rest.nchunks, others = c->n - 1;
    const int from = (int)(all * (q - 1) / others);
    const int to = (int)(all * (q - 1 + n) / others);
    return OUT_RUN(c->rest.chunk + from, to - from);
}

static struct column column_of(const struct job *j, int d, int segment,
                               int path)
{
    struct column c = {
        .job = j,
        .d = d,
        .n = j->lanes.nsiblings[d],
        .me = j->lanes.mine[d],
        .shift = segment * j->nchunks,
        .roots = j->lanes.first[d] == 0,
        .path = lanes_path(&j->lanes, d, path),
    };
    if (c.roots) /* nobody carries a slice on from the outermost stage */
        c.rest = parts(&c, 0, d == 0 ? c.n : 1);
    return c;
}

/* One message of what is not empty, to or from member q. */
static void move(const struct column *c, struct plan *p, int q,
                 struct place what, bool sends, step_id ready)
{
    if (what.nchunks == 0)
        return;
    const int peer = lanes_holder(&c->job->lanes, c->d, &c->path, q);
    what.buf = (uint8_t)(sends ? c->job->mine : PLAN_OUT);
    if (sends)
        plan_send(p, peer, what, ready);
    else
        plan_recv(p, peer, what, PLAN_START);
}

/* The items of members [first, first + n): parts, and pieces of the rest. */
static void move_items(const struct column *c, struct plan *p, int q, int first,
                       int n, bool sends, step_id ready)
{
    if (!c->roots || c->d > 0)
        move(c, p, q, parts(c, first, n), sends, ready);
    if (c->roots)
        move(c, p, q, pieces(c, first, n), sends, ready);
}

static void scatter(const struct column *c, struct plan *p, bool sends,
                    step_id ready)
{
    if (c->roots && c->me > 0 && !sends)
        move_items(c, p, 0, c->me, 1, sends, ready);
    for (int q = 1; c->roots && c->me == 0 && sends && q < c->n; q++)
        move_items(c, p, q, q, 1, sends, ready);
}

static void gather(const struct column *c, struct plan *p, bool sends,
                   step_id ready)
{
    const int base = c->roots, n = c->n - base, me = c->me - base;
    for (int i = 1; i < n && me >= 0; i++) {
        const int q = base + (me + (sends ? i : n - i)) % n;
        move_items(c, p, q, sends ? c->me : q, 1, sends, ready);
    }
}

/* A round of Bruck's. */
static void twofold(const struct column *c, struct plan *p, int have,
                    bool sends, step_id ready)
{
    const int base = c->roots, n = c->n - base, me = c->me - base;
    if (me < 0 || have >= n)
        return;
    const int more = have < n - have ? have : n - have;
    const int from = (me + have) % n, to = (me + n - have) % n;
    const int first = sends ? me : from, before = n - first;
    const int peer = base + (sends ? to : from);
    move_items(c, p, peer, base + first, more < before ? more : before, sends,
               ready);
    if (more > before)
        move_items(c, p, peer, base, more - before, sends, ready);
}

static int nlanes(const void *what, int round)
{
    const struct job *j = what;
    return lanes_npaths(&j->lanes, j->round[round].d);
}

static void add_lane(const void *what, struct plan *p, int round, int segment,
                     int lane, bool sends, step_id ready)
{
    const struct job *j = what;
    const struct column c = column_of(j, j->round[round].d, segment, lane);
    if (j->round[round].act == SCATTERING)
        scatter(&c, p, sends, ready);
    else if (j->round[round].act == GATHERING)
        gather(&c, p, sends, ready);
    else
        twofold(&c, p, j->round[round].have, sends, ready);
}

static void list_round(struct job *j, enum act act, int d, int have)
{
    j->round[j->nrounds].act = act;
    j->round[j->nrounds].d = d;
    j->round[j->nrounds++].have = have;
}

/* longest[d]: the members of a column of stage d. */
static void list_rounds(struct job *j, const int *longest)
{
    for (int d = j->lanes.depth; d >= 0; d--)
        if (longest[d] > 1)
            list_round(j, SCATTERING, d, 0);
    for (int d = 0; d <= j->lanes.depth; d++)
        for (int have = 1; have < longest[d]; have *= 2)
            if (longest[d] > DIRECT)
                list_round(j, DOUBLING, d, have);
            else if (have == 1)
                list_round(j, GATHERING, d, 0);
}

/* The most receives of any position in a round: parts, and where the root is
 * not of the same group also pieces. */
static int64_t most_heard(const struct job *j, const int *longest, int round)
{
    const int d = j->round[round].d;
    const int64_t items = (d > 0 ? 2 : 1) * lanes_most_paths(&j->lanes, d);
    return j->round[round].act == GATHERING  ? items * (longest[d] - 1)
           : j->round[round].act == DOUBLING ? 2 * items
                                             : items;
}

/* Whether the receives of a tick fit the executor's window at all positions. As
 * many segments are in a tick as there are rounds. */
static bool fit(const struct job *j, const int *longest, int segments)
{
    for (int first = 0; first < j->nrounds; first++) {
        int64_t heard = 0;
        for (int i = first; i < first + segments && i < j->nrounds; i++)
            heard += most_heard(j, longest, i);
        if (heard > AT_ONCE)
            return false;
    }
    return true;
}

/* What the root carries is to be cut into about equal pieces. */
static int fineness(const struct lanes *l)
{
    int most = 1;
    for (int d = 1; d <= l->depth; d++)
        most = l->parts[d] - 1 > most ? l->parts[d] - 1 : most;
    return most < FINEST ? most : FINEST;
}

void plan_broadcast_hierarchical(struct plan *p, const struct plan_shape *s)
{
    struct job j = {.mine = s->rank == 0 ? PLAN_IN : PLAN_OUT};
    int longest[LANES_STAGES] = {0};
    const int segments = s->segments > 0 ? s->segments : 1;
    lanes_init(&j.lanes, s);
    for (int d = 0; d <= j.lanes.depth; d++)
        longest[d] = j.lanes.parts[d];
    list_rounds(&j, longest);
    if (!j.lanes.nchunks) {
        plan_init(p, 1, 0);
        p->status = COLL_ERR_UNSUPPORTED;
        return;
    }
    if (longest[0] > 2) /* without the root's */
        lanes_recut(&j.lanes, longest[0] - 1);
    j.fine = fineness(&j.lanes);
    j.nchunks = j.lanes.nchunks * j.fine;
    plan_init(p, j.nchunks * segments, 0);
    plan_rounds(p,
                &(struct rounds){.nrounds = j.nrounds,
                                 .segments = segments,
                                 .add = add_lane,
                                 .nlanes = nlanes,
                                 .what = &j,
                                 .lane_by_lane = !fit(&j, longest, segments)});
    if (s->rank == 0)
        plan_copy(p, OUT_RUN(0, p->nchunks), IN_RUN(0, p->nchunks), PLAN_START);
}
