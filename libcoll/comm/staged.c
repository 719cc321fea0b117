/* SPDX-License-Identifier: MIT */
#include "comm/staged.h"

#include "base/log.h"
#include "comm/request.h"

bool staged_serves(const coll_request *r)
{
    return r->way == BY_PLAN && r->choice.order == ORDER_HOSTS;
}

/* Slices are cut at cache lines. */
static size_t slice_of(const coll_request *r, int nplaces)
{
    const size_t line = 64 / r->elem_bytes, n = (size_t)nplaces;
    return ((r->count + n - 1) / n + line - 1) / line * line;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Who carries what. */
static void divide(coll_request *r)
{
    coll_comm *c = r->comm;
    struct staged *s = &c->staged;
    const struct hosts *h = &c->hosts;
    const int host = h->host_of[c->rank], place = h->place_of[c->rank];
    const int leader = hosts_leader(h, host, r->root);
    *s = (struct staged){
        .at = STAGED_IN,
        .slices = r->kind == ALLREDUCE && h->even && c->node
                  && request_bytes(r) >= HOSTS_SLICES_MIN,
        .leader = h->place_of[leader],
        .combine =
            r->op == COLL_AVG ? op_combine(r->dtype, COLL_SUM) : r->combine,
        .news = c->news,
        .count = r->kind == BARRIER ? 1 : r->count, /* one byte to send */
    };
    s->parts = r->kind == REDUCE_SCATTER || r->kind == ALLGATHER;
    s->carries = s->slices || s->parts || leader == c->rank;
    if (s->parts)
        s->count = r->count * (size_t)h->n;
    if (!s->slices)
        return;
    s->each = slice_of(r, c->node->n);
    s->first = smaller((size_t)place * s->each, r->count);
    s->count = smaller(s->each, r->count - s->first);
}

/* Where this host's sum comes to lie. */
static coll_status find_room(coll_request *r)
{
    coll_comm *c = r->comm;
    struct staged *s = &c->staged;
    s->sum = r->out;
    if (s->slices && s->count)
        s->sum += s->first * r->elem_bytes;
    if (!s->parts
        && (r->kind != REDUCE || r->root == c->rank || !s->carries || !c->node))
        return COLL_OK;
    const coll_status status = comm_reserve_shared(c, s->count * r->elem_bytes);
    s->sum = c->shared;
    return status;
}

coll_status staged_prepare(coll_request *r)
{
    coll_comm *c = r->comm;
    struct staged *s = &c->staged;
    divide(r);
    r->prepared = NULL;
    coll_status status = find_room(r);
    if (status == COLL_OK && s->carries)
        status = comm_prepare(c, &r->choice, r->root, &r->prepared);
    if (status == COLL_OK && s->carries)
        status = comm_reserve(
            c, exec_tmp_bytes(&r->prepared->plan, s->count, r->elem_bytes));
    return status;
}

/* --- stages ---------------------------------------------------------------
 */

static void start_inside(coll_request *r, struct node_call *call)
{
    coll_comm *c = r->comm;
    struct node *n = c->node;
    const size_t bytes =
        r->count * r->elem_bytes * (c->staged.parts ? (size_t)n->n : 1);
    call->root = c->staged.leader;
    call->dtype = r->dtype;
    call->elem_bytes = r->elem_bytes;
    call->tag = r->tag;
    call->news = c->staged.news;
    n->call = *call;
    if (call->kind == BARRIER
        || (!c->staged.slices && bytes <= n->inline_bytes))
        node_start_inline(n);
    else
        node_start_direct(n);
}

/* Of the vector that has a part for each rank: where those of this round's host
 * begin. */
static void *whole_part(const coll_request *r, const void *vector)
{
    const size_t each = r->count * r->elem_bytes;
    const int before = r->comm->staged.round * r->comm->node->n;
    return (char *)vector + (size_t)before * each;
}

/* And of that which has one for each host. */
static void *host_part(const coll_request *r)
{
    const struct staged *s = &r->comm->staged;
    return s->sum + (size_t)s->round * r->count * r->elem_bytes;
}

/* Each starts a stage, or says that there is nothing to do in it here. */
static bool start_in(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    struct node_call call = {.kind = r->kind, .in = r->in, .out = s->sum};
    if (!c->node || r->kind == BROADCAST || r->kind == ALLGATHER)
        return false;
    if (s->parts) {
        call.in = whole_part(r, r->in);
        call.out = host_part(r);
        call.combine = s->combine;
        call.count = r->count;
    } else if (r->kind != BARRIER) {
        call.kind = s->slices ? REDUCE_SCATTER : REDUCE;
        call.combine = s->combine;
        call.count = s->slices ? s->each : r->count;
        call.whole = s->slices ? r->count : 0;
    }
    start_inside(r, &call);
    return true;
}

static bool start_across(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    if (!s->carries)
        return false;
    const bool summed = c->node && r->kind != BROADCAST && r->kind != ALLGATHER;
    const size_t before = r->count * (size_t)c->hosts.host_of[c->rank];
    struct exec_call call = {
        .in = summed ? s->sum : r->in,
        .out = r->kind == REDUCE || r->kind == REDUCE_SCATTER ? r->out : s->sum,
        .in_first = r->kind == ALLGATHER ? before : 0,
        .out_first = r->kind == REDUCE_SCATTER ? before : 0,
        .tmp = c->tmp,
        .count = s->count,
        .elem_bytes = r->elem_bytes,
        .reduce = s->combine,
        .tag = r->tag,
        .news = s->news,
    };
    if (r->kind == BARRIER)
        call.in = "";
    exec_start(&r->prepared->exec, &call);
    return true;
}

static bool start_out(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct staged *s = &c->staged;
    struct node_call call = {
        .kind = r->kind, .in = s->sum, .out = r->out, .count = r->count};
    if (!c->node || r->kind == REDUCE || r->kind == REDUCE_SCATTER)
        return false;
    if (s->parts) {
        call.in = host_part(r);
        call.out = whole_part(r, r->out);
    } else if (r->kind != BARRIER)
        call.kind = s->slices ? ALLGATHER : BROADCAST;
    if (s->slices) {
        call.count = s->each;
        call.whole = r->count;
    }
    start_inside(r, &call);
    return true;
}

static void start_stage(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    s->active = s->at == STAGED_IN       ? start_in(r)
                : s->at == STAGED_ACROSS ? start_across(r)
                                         : start_out(r);
}

/* What has crossed is the sum of all. */
static void finish_average(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    if (r->op != COLL_AVG || (r->kind == REDUCE && r->root != r->comm->rank))
        return;
    const bool part = r->kind == REDUCE_SCATTER;
    const size_t count = part ? r->count : s->count;
    op_finish(r->dtype, r->op, part ? r->out : s->sum, count, r->comm->nranks);
    s->bytes_read += count * r->elem_bytes;
    s->bytes_written += count * r->elem_bytes;
}

static void end_stage(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    const struct node *n = r->comm->node;
    if (!s->active)
        return;
    if (s->at != STAGED_ACROSS) {
        s->news = node_heard(n);
        s->bytes_read += n->bytes_read;
        s->bytes_written += n->bytes_written;
        return;
    }
    const struct exec *e = &r->prepared->exec;
    s->news = e->news;
    s->bytes_read += e->bytes_read;
    s->bytes_written += e->bytes_written;
    finish_average(r);
}

void staged_start(coll_request *r)
{
    start_stage(r);
}

/* A rank of this host may run another operation, and by messages: it never
 * comes. */
static coll_status progress(coll_request *r)
{
    coll_comm *c = r->comm;
    if (c->staged.at == STAGED_ACROSS)
        return exec_progress(&r->prepared->exec);
    const coll_status status = node_step(c->node);
    return status == COLL_IN_PROGRESS ? node_check(c->node, c->begun) : status;
}

coll_status staged_step(coll_request *r)
{
    struct staged *s = &r->comm->staged;
    for (;;) {
        const coll_status status = s->active ? progress(r) : COLL_OK;
        if (status != COLL_OK)
            return status;
        end_stage(r);
        if (s->active && s->at != STAGED_ACROSS && s->parts
            && ++s->round < r->comm->hosts.n) {
            start_stage(r);
            continue;
        }
        s->active = false;
        s->round = 0;
        if (s->at == STAGED_OUT)
            return COLL_OK;
        s->at++;
        start_stage(r);
    }
}

/* --- waiting --------------------------------------------------------------
 */

bool staged_awaits(const coll_request *r, int rank)
{
    const struct staged *s = &r->comm->staged;
    if (!s->active)
        return false;
    return s->at == STAGED_ACROSS ? exec_awaits(&r->prepared->exec, rank)
                                  : node_awaits(r->comm->node, rank);
}

enum staged_need staged_needs(const coll_comm *c)
{
    const coll_request *r = c->first;
    if (!r || !r->started || r->early < 0 || !staged_serves(r))
        return STAGED_NEEDS_ALL;
    if (c->staged.at == STAGED_ACROSS)
        return STAGED_NEEDS_MESSAGES;
    return c->staged.carries ? STAGED_NEEDS_ALL : STAGED_NEEDS_NODE;
}
