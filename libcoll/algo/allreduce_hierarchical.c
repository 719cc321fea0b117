/* SPDX-License-Identifier: MIT */
/* Allreduce level by level: every rank carries its slice to the next.
 *
 *   time   sum over the levels of a reduce-scatter and an allgather of what is
 *          left: 2 (g - 1)/g beta_inside bytes + 2 (G - 1)/G (bytes/g)
 *          beta_outside for G groups of g, all overlapped by segments
 *   when   groups with fast links inside and slow ones between, long vectors:
 *          each byte crosses each slow link once in each direction
 *   order  a chunk is summed inside a group, then across, from its owner on
 *   from   Cho et al., "BlueConnect", MLSys 2019; hierarchical ring: Jia et
 * al., arXiv:1807.11205
 *
 * Two groups of two, ranks 0 1 | 2 3, four chunks; what rank 0 does in time:
 *
 *   stage 1   sends chunks 2 3 to 1, adds 0 1 of 1       reduce-scatter inside
 *   stage 0   sends chunks 0 1 to 2, adds 0 1 of 2       between two: exchange
 *   stage 1   sends chunks 0 1 to 1, receives 2 3        allgather inside
 *
 * A vector of several segments is three rows of a pipeline: the second segment
 * is inside while the first one is between. lanes.h has groups of other sizes.
 */
#include "algo/algo.h"
#include "algo/lanes.h"

/* Columns up to this long exchange directly, in one round. */
enum { DIRECT = 8, MAX_ROUNDS = 31, MAX_STEPS = 2 * LANES_STAGES };

enum act { SCATTERING, EXCHANGING, GATHERING };

struct job {
    struct plan *plan;
    struct lanes lanes;
    int nstages, segments;
    struct {
        enum act act;
        int d;    /* stage of lanes */
        int slot; /* its scratch: one area for even segments, one for odd */
        int area;
        enum plan_buf from; /* where what it sends is */
    } stage[MAX_STEPS];
    step_id ready[PLAN_SEGMENTS_MAX];  /* what the segment holds is there */
    step_id posted[PLAN_SEGMENTS_MAX]; /* its stage's first step, if direct */
};

/* One column of one segment. */
struct column {
    const struct lanes *lanes;
    int d, n, me;
    struct lane_path path;
    int shift; /* chunks before the segment */
    int slot;
    enum plan_buf from;
};

static int holder(const struct column *c, int q)
{
    return lanes_holder(c->lanes, c->d, &c->path, q);
}

/* The parts of members [q, q + n). */
static struct place parts(const struct column *c, enum plan_buf buf, int q,
                          int n, int slot)
{
    const struct lane_part from = lanes_part(c->lanes, c->d, &c->path, q);
    const struct lane_part to = lanes_part(c->lanes, c->d, &c->path, q + n - 1);
    return (struct place){(uint8_t)buf, from.chunk + c->shift,
                          to.chunk + to.nchunks - from.chunk, slot};
}

static struct column column_of(const struct job *j, int stage, int segment,
                               int path)
{
    const int d = j->stage[stage].d;
    return (struct column){
        .lanes = &j->lanes,
        .d = d,
        .n = j->lanes.nsiblings[d],
        .me = j->lanes.mine[d],
        .path = lanes_path(&j->lanes, d, path),
        .shift = segment * j->lanes.nchunks,
        .slot = j->stage[stage].slot + (segment % 2) * j->stage[stage].area
                + path * (j->stage[stage].area / lanes_npaths(&j->lanes, d)),
        .from = j->stage[stage].from,
    };
}

/* --- Columns that exchange directly: posted, and finished a stage later. */

/* Of member q, in the scratch of a column: behind those before it. */
static int slot_of(const struct column *c, int q)
{
    const int mine = parts(c, PLAN_OUT, c->me, 1, 0).nchunks;
    return c->slot + (q > c->me ? q - 1 : q) * mine;
}

static void post(struct plan *p, const struct column *c, enum act act,
                 step_id ready)
{
    for (int i = 1; i < c->n; i++) {
        const int q = (c->me + c->n - i) % c->n;
        const struct place to =
            act == SCATTERING   ? parts(c, PLAN_TMP, c->me, 1, slot_of(c, q))
            : act == EXCHANGING ? parts(c, PLAN_TMP, 0, 2, c->slot)
                                : parts(c, PLAN_OUT, q, 1, 0);
        plan_recv(p, holder(c, q), to, PLAN_START);
    }
    for (int i = 1; i < c->n; i++) {
        const int q = (c->me + i) % c->n;
        const struct place what = act == SCATTERING ? parts(c, c->from, q, 1, 0)
                                  : act == EXCHANGING
                                      ? parts(c, c->from, 0, 2, 0)
                                      : parts(c, PLAN_OUT, c->me, 1, 0);
        plan_send(p, holder(c, q), what, ready);
    }
}

/* posted: the first of the column's receives. Both partners of an exchange add
 * in the same order. */
static step_id finish(struct plan *p, const struct column *c, enum act act,
                      step_id posted, step_id ready)
{
    enum plan_buf mine = c->from;
    for (int i = 1; i < c->n; i++) {
        const int q = (c->me + c->n - i) % c->n;
        const bool all = act == EXCHANGING;
        step_id got = posted + i - 1;
        if (act == GATHERING) {
            ready = plan_join(p, ready, got);
            continue;
        }
        if (all) /* the sum goes where it is sent from */
            got = plan_join(p, got, posted + c->n - 1);
        const int first = all ? 0 : c->me, n = all ? 2 : 1;
        const struct place own = parts(c, mine, first, n, 0);
        const struct place other =
            parts(c, PLAN_TMP, first, n, all ? c->slot : slot_of(c, q));
        const bool swap = all && c->me == 1;
        ready = plan_reduce(p, parts(c, PLAN_OUT, first, n, 0),
                            swap ? other : own, swap ? own : other, got);
        mine = PLAN_OUT;
    }
    return ready;
}

/* --- Longer columns: rounds, one after another. */

struct window {
    int first, n;
};

static int round_window(int n, int me, int rounds, struct window *before)
{
    struct window w = {0, n};
    int k = 0;
    for (int mask = n / 2; mask > 0 && k < rounds; mask /= 2, k++) {
        before[k] = w;
        w.n /= 2;
        w.first += me & mask ? w.n : 0;
    }
    before[k] = w;
    return k;
}

static step_id halve(struct plan *p, const struct column *c, step_id ready)
{
    struct window w[MAX_ROUNDS + 1];
    const int rounds = round_window(c->n, c->me, MAX_ROUNDS, w);
    enum plan_buf mine = c->from;
    for (int k = 0; k < rounds; k++) {
        const struct window keep = w[k + 1];
        const int give =
            keep.first == w[k].first ? w[k].first + keep.n : w[k].first;
        const int peer = holder(c, c->me ^ c->n >> (k + 1));
        const struct place got =
            parts(c, PLAN_TMP, keep.first, keep.n, c->slot);
        const step_id came = plan_recv(p, peer, got, PLAN_START);
        plan_send(p, peer, parts(c, mine, give, keep.n, 0), ready);
        ready = plan_reduce(p, parts(c, PLAN_OUT, keep.first, keep.n, 0),
                            parts(c, mine, keep.first, keep.n, 0), got, came);
        mine = PLAN_OUT;
    }
    return ready;
}

static step_id twofold(struct plan *p, const struct column *c, step_id ready)
{
    struct window w[MAX_ROUNDS + 1];
    int k = round_window(c->n, c->me, MAX_ROUNDS, w);
    while (k-- > 0) {
        const struct window have = w[k + 1];
        const int missing =
            have.first == w[k].first ? w[k].first + have.n : w[k].first;
        const int peer = holder(c, c->me ^ c->n >> (k + 1));
        const step_id came = plan_recv(
            p, peer, parts(c, PLAN_OUT, missing, have.n, 0), PLAN_START);
        plan_send(p, peer, parts(c, PLAN_OUT, have.first, have.n, 0), ready);
        ready = plan_join(p, ready, came);
    }
    return ready;
}

/* Member q ends with part q: it starts by sending the one before. */
static step_id ring_scatter(struct plan *p, const struct column *c,
                            step_id ready)
{
    const int right = holder(c, (c->me + 1) % c->n);
    const int left = holder(c, (c->me + c->n - 1) % c->n);
    for (int k = 1; k < c->n; k++) {
        const int out = (c->me + c->n - k) % c->n;
        const int in = (out + c->n - 1) % c->n;
        const struct place got = parts(c, PLAN_TMP, in, 1, c->slot);
        const step_id came = plan_recv(p, left, got, PLAN_START);
        plan_send(p, right, parts(c, k == 1 ? c->from : PLAN_OUT, out, 1, 0),
                  ready);
        ready = plan_reduce(p, parts(c, PLAN_OUT, in, 1, 0),
                            parts(c, c->from, in, 1, 0), got, came);
    }
    return ready;
}

static step_id ring_gather(struct plan *p, const struct column *c,
                           step_id ready)
{
    const int right = holder(c, (c->me + 1) % c->n);
    const int left = holder(c, (c->me + c->n - 1) % c->n);
    for (int k = 0; k + 1 < c->n; k++) {
        const int out = (c->me + c->n - k) % c->n;
        const int in = (out + c->n - 1) % c->n;
        const step_id came =
            plan_recv(p, left, parts(c, PLAN_OUT, in, 1, 0), PLAN_START);
        plan_send(p, right, parts(c, PLAN_OUT, out, 1, 0), ready);
        ready = plan_join(p, ready, came);
    }
    return ready;
}

static step_id by_rounds(struct plan *p, const struct column *c, enum act act,
                         step_id ready)
{
    const bool pow2 = (c->n & (c->n - 1)) == 0;
    if (act == SCATTERING)
        return pow2 ? halve(p, c, ready) : ring_scatter(p, c, ready);
    return pow2 ? twofold(p, c, ready) : ring_gather(p, c, ready);
}

/* --- The pipeline. */

static void begin_stage(struct job *j, int stage, int segment)
{
    const int d = j->stage[stage].d;
    const int npaths = lanes_npaths(&j->lanes, d);
    step_id *ready = &j->ready[segment], all = *ready;
    j->posted[segment] = j->plan->nsteps;
    for (int i = 0; i < npaths; i++) {
        const struct column c = column_of(j, stage, segment, i);
        if (c.n <= DIRECT)
            post(j->plan, &c, j->stage[stage].act, *ready);
        else
            all =
                plan_join(j->plan, all,
                          by_rounds(j->plan, &c, j->stage[stage].act, *ready));
    }
    *ready = all;
}

static void end_stage(struct job *j, int stage, int segment)
{
    const int d = j->stage[stage].d;
    const int npaths = lanes_npaths(&j->lanes, d);
    step_id all = j->ready[segment];
    for (int i = 0; i < npaths; i++) {
        const struct column c = column_of(j, stage, segment, i);
        if (c.n > DIRECT)
            return;
        const step_id posted = j->posted[segment] + i * 2 * (c.n - 1);
        all = plan_join(j->plan, all,
                        finish(j->plan, &c, j->stage[stage].act, posted,
                               j->ready[segment]));
    }
    j->ready[segment] = all;
}

static void add_stage(struct job *j, enum act act, int d, int *nslots,
                      enum plan_buf from)
{
    const int npaths = lanes_npaths(&j->lanes, d);
    const int window = j->lanes.size[d] * j->lanes.parts[d];
    /* Received by a column at once: less than its windows, or all of them
     * again for each other member, where shares are uneven. */
    const int n = j->lanes.nsiblings[d];
    const int part =
        (j->lanes.parts[d] + n - 1) / n * j->lanes.size[d] * (n - 1);
    const int most = act == EXCHANGING || n > DIRECT ? window : part;
    const int area = act == GATHERING ? 0 : npaths * most;
    j->stage[j->nstages].act = act;
    j->stage[j->nstages].d = d;
    j->stage[j->nstages].slot = *nslots;
    j->stage[j->nstages].area = area;
    j->stage[j->nstages++].from = from;
    *nslots += (j->segments > 1 ? 2 : 1) * area;
}

/* Returns the slots of scratch that the stages need. */
static int list_stages(struct job *j)
{
    enum plan_buf from = PLAN_IN;
    int nslots = 0;
    const int depth = j->lanes.depth;
    for (int d = depth; d >= 0; d--) {
        const bool two = d == 0 && j->lanes.nsiblings[0] == 2;
        if (j->lanes.parts[d] > 1)
            add_stage(j, two ? EXCHANGING : SCATTERING, d, &nslots, from);
        if (j->lanes.nsiblings[d] > 1)
            from = PLAN_OUT;
        if (d == 0 && !two && j->lanes.parts[0] > 1)
            add_stage(j, GATHERING, 0, &nslots, PLAN_OUT);
    }
    for (int d = 1; d <= depth; d++)
        if (j->lanes.parts[d] > 1)
            add_stage(j, GATHERING, d, &nslots, PLAN_OUT);
    return nslots;
}

void plan_allreduce_hierarchical(struct plan *p, const struct plan_shape *s)
{
    struct job j = {.plan = p, .segments = s->segments > 0 ? s->segments : 1};
    lanes_init(&j.lanes, s);
    if (!j.lanes.nchunks) {
        plan_init(p, 1, 0);
        p->status = COLL_ERR_UNSUPPORTED;
        return;
    }
    const int nslots = list_stages(&j);
    const int all = j.lanes.nchunks * j.segments;
    plan_init(p, all, nslots);
    if (s->nranks == 1) {
        plan_copy(p, OUT_RUN(0, all), IN_RUN(0, all), PLAN_START);
        return;
    }
    for (int i = 0; i < j.segments; i++)
        j.ready[i] = PLAN_START;
    /* A segment's stage is finished just before its next one begins, after the
     * segments behind it have been posted: so none of them waits for it. */
    for (int tick = 0; tick < j.segments + j.nstages; tick++)
        for (int stage = 0; stage <= j.nstages; stage++) {
            const int segment = tick - stage;
            if (segment < 0 || segment >= j.segments)
                continue;
            if (stage > 0)
                end_stage(&j, stage - 1, segment);
            if (stage < j.nstages)
                begin_stage(&j, stage, segment);
        }
}
