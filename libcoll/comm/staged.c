/* SPDX-License-Identifier: MIT */
#include "comm/staged.h"

#include "base/log.h"
#include "comm/calls.h"
#include "comm/request.h"

enum { CARRIED = 2 }; /* segments that there is room for, where r has parts */

bool staged_serves(const coll_request *r)
{
    return r->way == BY_PLAN && layout_by_hosts(r->choice.order);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t divided(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Of so many equal pieces, each but the last a number of cache lines. */
static size_t piece_of(const coll_request *r, size_t count, int npieces)
{
    const size_t line = 64 / r->elem_bytes;
    return divided(divided(count, (size_t)npieces), line) * line;
}

/* Whether ranks of a host have something to do before and after. */
static bool sums(const coll_request *r)
{
    return r->comm->node && r->kind != BROADCAST && r->kind != ALLGATHER;
}

static bool spreads(const coll_request *r)
{
    return r->comm->node && r->kind != REDUCE && r->kind != REDUCE_SCATTER;
}

/* As the choice says, but none that would be empty. */
static void cut(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    const int most = r->choice.cut ? 1 << r->choice.variant : 1;
    s->nsegments = 1;
    s->segment = r->count;
    if (most == 1 || !r->count)
        return;
    s->segment = piece_of(r, r->count, most);
    s->nsegments = (int)divided(r->count, s->segment);
}

/* Who carries what. */
static void divide(coll_request *r)
{
    coll_comm *c = r->comm;
    struct staged *s = &c->staged;
    const struct hosts *h = &c->hosts;
    const int leader = hosts_leader(h, h->host_of[c->rank], r->root);
    *s = (struct staged){
        .slices = r->kind == ALLREDUCE && h->even && c->node
                  && request_bytes(r) >= HOSTS_SLICES_MIN,
        .parts = r->kind == REDUCE_SCATTER || r->kind == ALLGATHER,
        .leader = h->place_of[leader],
        .combine =
            r->op == COLL_AVG ? op_combine(r->dtype, COLL_SUM) : r->combine,
        .news = c->news,
    };
    s->carries = s->slices || s->parts || leader == c->rank;
    cut(r);
    s->in = sums(r) ? 0 : s->nsegments;
}

/* Elements from one on. */
struct piece {
    size_t first, count;
};

/* Of the vector, or of each of its parts. */
static struct piece segment(const coll_request *r, int k)
{
    const struct staged *s = &r->comm->staged;
    const size_t first = (size_t)k * s->segment;
    return (struct piece){first, smaller(s->segment, r->count - first)};
}

/* What this rank carries of a segment, and where it is in this host's sum. */
static struct piece load(const coll_request *r, int k)
{
    const coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    const size_t nhosts = (size_t)c->hosts.n;
    struct piece p = segment(r, k);
    if (s->parts)
        p = (struct piece){(size_t)(k % CARRIED) * s->segment * nhosts,
                           p.count * nhosts};
    if (r->kind == BARRIER)
        p.count = 1; /* one byte to send */
    if (!s->slices)
        return p;
    const size_t each = piece_of(r, p.count, c->node->n);
    const size_t before =
        smaller((size_t)c->hosts.place_of[c->rank] * each, p.count);
    return (struct piece){p.first + before, smaller(each, p.count - before)};
}

/* The most that a rank carries of a segment: some rank does of the first. */
static size_t longest_load(const coll_request *r)
{
    const coll_comm *c = r->comm;
    const struct piece first = segment(r, 0);
    return c->staged.slices ? piece_of(r, first.count, c->node->n)
                            : load(r, 0).count;
}

/* Where this host's sum comes to lie. */
static coll_status find_room(coll_request *r)
{
    coll_comm *c = r->comm;
    struct staged *s = &c->staged;
    const size_t held = s->parts ? smaller((size_t)s->nsegments, CARRIED)
                                       * s->segment * (size_t)c->hosts.n
                                 : r->count;
    s->sum = r->out;
    if (!s->parts
        && (r->kind != REDUCE || r->root == c->rank || !s->carries || !c->node))
        return COLL_OK;
    const coll_status status = comm_reserve_shared(c, held * r->elem_bytes);
    s->sum = c->shared;
    return status;
}

coll_status staged_prepare(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    divide(r);
    r->prepared = NULL;
    coll_status status = find_room(r);
    if (status == COLL_OK && s->carries)
        status = comm_prepare(c, &r->choice, r->root, &r->prepared);
    if (status == COLL_OK && s->carries)
        status =
            comm_reserve(c, exec_tmp_bytes(&r->prepared->plan, longest_load(r),
                                           r->elem_bytes));
    return status;
}

/* --- inside ---------------------------------------------------------------
 */

/* NULL stays NULL: some kinds have no such vector. */
static void *at(const coll_request *r, const void *vector, size_t element)
{
    return vector ? (char *)vector + element * r->elem_bytes : NULL;
}

static void start_inside(coll_request *r, struct node_call *call)
{
    coll_comm *c = r->comm;
    struct node *n = c->node;
    const size_t bytes =
        call->count * r->elem_bytes * (c->staged.parts ? (size_t)n->n : 1);
    call->root = c->staged.leader;
    call->dtype = r->dtype;
    call->elem_bytes = r->elem_bytes;
    call->tag = r->tag;
    call->news = c->staged.news;
    call->flat = r->flat;
    n->call = *call;
    if (call->kind == BARRIER
        || (!c->staged.slices && bytes <= n->inline_bytes))
        node_start_inline(n);
    else
        node_start_direct(n);
}

/* Where the part for this round's host is in what this rank carries. */
static void *host_part(const coll_request *r, int k)
{
    const struct staged *s = &r->comm->staged;
    const size_t before = (size_t)s->round * segment(r, k).count;
    return at(r, s->sum, load(r, k).first + before);
}

/* Where those for its ranks are in the vector that has one for each rank. */
static void find_parts(const coll_request *r, struct node_call *call)
{
    const struct hosts *h = &r->comm->hosts;
    call->apart = r->count;
    call->part_of = h->rank_at + h->first[r->comm->staged.round];
}

/* Makes the slices of a segment, of all or of just this rank, a call's parts.
 */
static void slice(const coll_request *r, struct piece all, enum coll_kind kind,
                  struct node_call *call)
{
    call->kind = kind;
    call->count = piece_of(r, all.count, r->comm->node->n);
    call->whole = all.count;
}

static void start_in(coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    const struct piece all = segment(r, s->in);
    struct node_call call = {
        .kind = r->kind,
        .in = at(r, r->in, all.first),
        .out = at(r, s->sum, all.first),
        .count = all.count,
        .combine = s->combine,
    };
    if (s->parts) {
        call.out = host_part(r, s->in);
        find_parts(r, &call);
    } else if (s->slices) {
        call.out = at(r, s->sum, load(r, s->in).first);
        slice(r, all, REDUCE_SCATTER, &call);
    } else if (r->kind != BARRIER) {
        call.kind = REDUCE;
    }
    start_inside(r, &call);
}

static void start_out(coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    const struct piece all = segment(r, s->out);
    struct node_call call = {
        .kind = r->kind,
        .in = at(r, s->sum, all.first),
        .out = at(r, r->out, all.first),
        .count = all.count,
    };
    if (s->parts) {
        call.in = host_part(r, s->out);
        find_parts(r, &call);
    } else if (s->slices) {
        call.in = at(r, s->sum, load(r, s->out).first);
        slice(r, all, ALLGATHER, &call);
    } else if (r->kind != BARRIER) {
        call.kind = BROADCAST;
    }
    start_inside(r, &call);
}

static bool may_go_in(const coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    if (s->parts && s->in == s->crossed + CARRIED)
        return false; /* no room */
    return s->in < s->nsegments && (s->in <= s->out + 1 || !spreads(r));
}

/* Starts what is next inside, the same on all ranks of a host; false: there is
 * nothing, or it has to cross first. */
static bool go_inside(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    if (may_go_in(r)) {
        s->spreads = false;
        start_in(r);
    } else if (spreads(r) && s->out < s->crossed) {
        s->spreads = true;
        start_out(r);
    } else {
        return false;
    }
    s->inside = true;
    return true;
}

static void hear(struct staged *s, uint16_t news)
{
    if (news && (!s->news || news < s->news))
        s->news = news;
}

static void end_inside(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    const struct node *n = r->comm->node;
    hear(s, node_heard(n));
    s->bytes_read += n->bytes_read;
    s->bytes_written += n->bytes_written;
    s->overlaps += s->crossing;
    s->inside = false;
    if (s->parts && ++s->round < r->comm->hosts.n)
        return;
    s->round = 0;
    *(s->spreads ? &s->out : &s->in) += 1;
}

/* OK: something moved. A rank of this host may run another operation, and by
 * messages: it never comes. */
static coll_status step_inside(coll_request *r)
{
    coll_comm *c = r->comm;
    if (!c->staged.inside && !go_inside(r))
        return COLL_IN_PROGRESS;
    const coll_status status = node_step(c->node);
    if (status == COLL_IN_PROGRESS)
        return node_check(c->node, calls_begun(c));
    if (status == COLL_OK)
        end_inside(r);
    return status;
}

/* --- across ---------------------------------------------------------------
 */

static void start_across(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    const struct piece mine = load(r, s->crossed);
    const struct piece all = segment(r, s->crossed);
    const size_t before = all.count * (size_t)c->hosts.host_of[c->rank];
    const bool ends = r->kind == REDUCE || r->kind == REDUCE_SCATTER;
    struct exec_call call = {
        .in = sums(r) ? at(r, s->sum, mine.first) : at(r, r->in, all.first),
        .out = ends ? at(r, r->out, all.first) : at(r, s->sum, mine.first),
        .in_first = r->kind == ALLGATHER ? before : 0,
        .out_first = r->kind == REDUCE_SCATTER ? before : 0,
        .tmp = c->tmp,
        .count = mine.count,
        .elem_bytes = r->elem_bytes,
        .reduce = s->combine,
        .first = (c->hosts.n - c->hosts.host_of[r->root]) % c->hosts.n,
        .tag = r->tag,
        .news = s->news,
    };
    if (r->kind == BARRIER)
        call.in = "";
    exec_start(&r->prepared->exec, &call);
}

/* What has crossed is the sum of all. */
static void finish_average(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    if (r->op != COLL_AVG || (r->kind == REDUCE && r->root != r->comm->rank))
        return;
    const bool part = r->kind == REDUCE_SCATTER;
    const struct piece mine =
        part ? segment(r, s->crossed) : load(r, s->crossed);
    const size_t count = mine.count;
    op_finish(r->dtype, r->op, at(r, part ? r->out : s->sum, mine.first), count,
              r->comm->nranks);
    s->bytes_read += count * r->elem_bytes;
    s->bytes_written += count * r->elem_bytes;
}

static void end_across(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    const struct exec *e = &r->prepared->exec;
    hear(s, e->news);
    s->bytes_read += e->bytes_read;
    s->bytes_written += e->bytes_written;
    s->messages += e->messages;
    finish_average(r);
    s->crossing = false;
    s->crossed++;
}

static bool may_cross(const coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    if (s->parts && spreads(r) && s->crossed == s->out + CARRIED)
        return false; /* no room */
    return s->crossed < s->in;
}

/* OK: something moved. The next segment's messages go before this rank is busy
 * inside. */
static coll_status step_across(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    bool moved = false;
    while (s->crossing || may_cross(r)) {
        if (!s->carries) {
            s->crossed++;
            return COLL_OK;
        }
        if (!s->crossing)
            start_across(r);
        s->crossing = true;
        const coll_status status = exec_progress(&r->prepared->exec);
        if (status != COLL_OK)
            return status < 0 || !moved ? status : COLL_OK;
        end_across(r);
        moved = true;
    }
    return moved ? COLL_OK : COLL_IN_PROGRESS;
}

/* --- both -----------------------------------------------------------------
 */

static bool done(const coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    return s->crossed == s->nsegments
           && (!spreads(r) || s->out == s->nsegments);
}

/* Messages first, as others wait for them while this rank is busy inside. */
coll_status staged_step(coll_request *r)
{
    coll_status across, inside;
    do {
        across = step_across(r);
        inside = across < 0 || done(r) ? across : step_inside(r);
        if (across < 0 || inside < 0)
            return across < 0 ? across : inside;
    } while (!done(r) && (across == COLL_OK || inside == COLL_OK));
    if (!done(r))
        return COLL_IN_PROGRESS;
    if (r->comm->staged.nsegments > 1)
        log_line(COLL_LOG_DEBUG, "select",
                 "%d segments by hosts; %d times was something done in memory "
                 "while messages were under way",
                 r->comm->staged.nsegments, r->comm->staged.overlaps);
    return COLL_OK;
}

bool staged_awaits(const coll_request *r, int rank)
{
    const struct staged *s = &r->comm->staged;
    return (s->crossing && exec_awaits(&r->prepared->exec, rank))
           || (s->inside && node_awaits(r->comm->node, rank));
}

enum staged_need staged_needs(const coll_comm *c)
{
    const coll_request *r = c->first;
    const struct staged *s = &c->staged;
    if (!r || !r->started || r->early < 0 || !staged_serves(r))
        return STAGED_NEEDS_ALL;
    if (!s->inside)
        return STAGED_NEEDS_MESSAGES;
    return s->carries ? STAGED_NEEDS_ALL : STAGED_NEEDS_NODE;
}
