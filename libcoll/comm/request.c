/* SPDX-License-Identifier: MIT */
/* Operations under way: one after another in each communicator, so that
 * messages between two ranks match in posting order. */
#include "comm/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "comm/calls.h"
#include "comm/explain.h"
#include "comm/group.h"
#include "comm/news.h"
#include "comm/owner.h"
#include "comm/p2p.h"
#include "comm/red_op.h"

static const double news_seconds = .5, verdict_seconds = 1;
static const double again_seconds = .1; /* until the hub is asked once more */

/* All ranks are on this host, so a rank's number is its place. Field by field,
 * as in collectives.c: the rest is not looked at. */
static coll_status begin_on_node(coll_request *r)
{
    struct node *n = r->comm->node;
    struct node_call *call = &n->call;
    call->kind = r->kind;
    call->root = r->root;
    call->dtype = r->dtype;
    call->in = r->in;
    call->out = r->out;
    call->count = r->count;
    call->elem_bytes = r->elem_bytes;
    call->whole = call->apart = 0;
    call->parts = NULL;
    call->combine = r->combine;
    call->flat = r->flat;
    call->tag = r->tag;
    call->news = 0;
    const coll_status status = r->uneven ? uneven_set_node(r, call) : COLL_OK;
    if (status < 0)
        return status;
    if (call->parts && call->parts->own)
        node_start_parts(n);
    else if (r->way == NODE_INLINE)
        node_start_inline(n);
    else
        node_start_direct(n);
    return COLL_OK;
}

static void call_out(const coll_request *r, struct called *called)
{
    if (r->uneven)
        called_set_uneven(called, r->kind, r->dtype, r->op,
                          uneven_is_known(r->kind) ? r->uneven->hash
                                                   : (uint32_t)r->root,
                          r->uneven->all);
    else
        called_set(called, r->kind, r->dtype, r->op,
                   r->parts ? (int)group_lengths(r) : r->root, r->count);
}

static uint32_t how_of(const coll_request *r)
{
    return record_how(r->choice.algo, (int)r->choice.order, r->choice.variant);
}

/* The tag stands for this call and all before it. So a call that differs is
 * noticed at the latest in the next one in which a rank hears of another. The
 * algorithm is in it too: another rule or setting must not go unseen. */
static void sign(coll_request *r)
{
    coll_comm *c = r->comm;
    r->tag = record_tag(c->history, r->fingerprint, how_of(r));
    c->history = r->tag;
    if (c->hosts.n && c->node)
        node_begun(c->node, calls_begun(c) + 1, r->tag);
}

/* Of a meeting the call is told that it stands before: the user knows no other.
 */
static void record_begun(const coll_request *r)
{
    const coll_request *said = r->meeting ? r->next : r;
    struct record_ring *ring = &r->comm->recorder.calls;
    struct record *e = record_next(ring);
    call_out(said, &e->called);
    atomic_store_explicit(&e->tag, r->tag, memory_order_relaxed);
    e->how = how_of(r);
    record_publish(ring, r->meeting ? RECORD_MEETING : 0, COLL_OK,
                   record_ticks(r->comm->recorder.counts), 0);
}

static void begin_plan(coll_request *r)
{
    struct exec_call call;
    r->early = request_choose(r);
    if (r->early < 0)
        return;
    const bool staged = staged_serves(r);
    r->early = staged ? staged_prepare(r) : request_prepare(r, &call);
    if (r->early < 0)
        return;
    sign(r);
    record_begun(r);
    r->began = comm_clock();
    if (staged)
        return;
    call.tag = r->tag;
    exec_start(&r->prepared->exec, &call);
}

static void begin(coll_request *r)
{
    r->started = true;
    if (r->scaled && (r->early = red_op_scale(r)) < 0)
        return;
    if (r->way == BY_PLAN) {
        begin_plan(r);
        return;
    }
    sign(r);
    if (r->comm->explains && r->comm->rank == 0 && !r->uneven)
        explain_aloud(r->comm, r->kind, ANY_ORDER, request_bytes(r));
    r->early = begin_on_node(r);
}

static coll_status progress(coll_request *r)
{
    if (r->early < 0)
        return r->early;
    if (staged_serves(r))
        return staged_step(r);
    return r->way == BY_PLAN ? exec_progress(&r->prepared->exec)
                             : node_step(r->comm->node);
}

bool comm_on_node(const coll_comm *c)
{
    return c->first && c->first->started && c->first->way != BY_PLAN;
}

/* Takes a finished request off the head of the queue. */
static void pop(coll_comm *c)
{
    c->finished += !c->first->meeting;
    c->first = c->first->next;
    if (!c->first)
        c->last_request = &c->first;
}

static void end_with(coll_request *r, coll_status status)
{
    if (r->parts)
        group_end_fused(r, status);
    else
        r->status = status;
}

void comm_cancel(coll_comm *c)
{
    for (int i = 0; i < c->nopen; i++)
        c->open[i]->ops->cancel(c->open[i]);
}

void comm_end_requests(coll_comm *c, coll_status status)
{
    comm_cancel(c);
    if (record_runs(&c->recorder)) {
        const uint64_t ticks = record_end(&c->recorder, status);
        if (c->first)
            c->tally[c->first->kind].ticks += ticks;
    }
    while (c->first) {
        coll_request *r = c->first;
        c->tally[r->kind].failures += !r->meeting;
        pop(c);
        end_with(r, status);
    }
    p2p_end(c, status);
}

/* A transfer failed, or the job: nothing of this communicator goes on. */
void request_fail_as(coll_comm *c, coll_status status, const char *sentence)
{
    status = comm_fail(c, status, sentence);
    if (c->bootstrap)
        bootstrap_abort(c->bootstrap, status, c->sentence);
    comm_end_requests(c, status);
}

/* A transport that loses a peer may see the end of one that left because
 * another died, before the news of that comes over the link: so they are waited
 * for. Returns the status of what is then known. */
static coll_status find_cause(coll_comm *c, coll_status status)
{
    static const struct timespec pause = {0, 1000000};
    const bool mismatch = status == COLL_ERR_MISMATCH;
    double now = comm_clock(), ask = now;
    const double deadline = now + (mismatch ? verdict_seconds : news_seconds);
    if (!c->bootstrap
        || (!mismatch && status != COLL_ERR_PEER && status != COLL_ERR_SYSTEM))
        return status;
    for (; comm_check(c) == COLL_OK && now < deadline; now = comm_clock()) {
        if (mismatch && now >= ask) {
            bootstrap_inquire(c->bootstrap);
            ask = now + again_seconds;
        }
        nanosleep(&pause, NULL);
    }
    return comm_check(c) == COLL_OK ? status : comm_check(c);
}

void request_fail(coll_comm *c, coll_status status)
{
    request_fail_as(c, find_cause(c, status), fail_sentence());
}

/* Of one under way. Ranks that are in the same call, with other lengths, know
 * all there is to know; else the hub may know more. */
static void fail_under_way(coll_request *r, coll_status status)
{
    if (status == COLL_ERR_MISMATCH && r->uneven
        && (r->early == COLL_OK || r->way != BY_PLAN) && uneven_differs(r))
        request_fail_as(r->comm, status, fail_sentence());
    else
        request_fail(r->comm, status);
}

/* An average is a sum until here. */
static void end_plan(coll_request *r, struct tally *t)
{
    coll_comm *c = r->comm;
    if (staged_serves(r)) {
        news_learn(r, c->staged.news);
        t->bytes_read += c->staged.bytes_read;
        t->bytes_written += c->staged.bytes_written;
        t->messages += c->staged.messages;
        return;
    }
    const struct exec *e = &r->prepared->exec;
    news_learn(r, e->news);
    t->bytes_read += e->bytes_read;
    t->bytes_written += e->bytes_written;
    t->messages += e->messages;
    if (r->uneven)
        uneven_finish(r);
    if (r->op != COLL_AVG || r->prepared->plan.combines
        || (r->kind == REDUCE && r->root != c->rank))
        return;
    const size_t count = r->uneven ? r->uneven->mine : r->count;
    op_finish(r->dtype, r->op, r->out, count, c->nranks);
    t->bytes_read += count * r->elem_bytes;
    t->bytes_written += count * r->elem_bytes;
}

/* A meeting counts as a part of what it stands before. */
static void end(coll_request *r)
{
    coll_comm *c = r->comm;
    struct tally *t = &c->tally[r->meeting ? r->next->kind : r->kind];
    if (r->scaled)
        r->in = r->given;
    if (r->way != BY_PLAN) {
        t->bytes_read += c->node->bytes_read;
        t->bytes_written += c->node->bytes_written;
    } else {
        end_plan(r, t);
    }
    if (!r->meeting) {
        t->operations++;
        t->vector_bytes += r->count * r->elem_bytes * request_parts(r);
    }
    t->ticks += record_end(&c->recorder, COLL_OK);
}

/* The head of the queue, under way. */
static coll_request *begin_first(coll_comm *c)
{
    coll_request *r = c->first;
    if (r->started)
        return r;
    if (r->way == BY_PLAN && !r->timed && !r->meeting)
        news_time(r);
    begin(c->first);
    if (c->first->way != BY_PLAN && c->first->early == COLL_OK)
        record_begun(c->first);
    return c->first;
}

/* Advances the operation at the head as far as it goes. */
static void advance(coll_comm *c)
{
    /* Once the job has failed others may have returned: nothing is begun that
     * would write into their vectors. */
    while (c->first && comm_check(c) == COLL_OK) {
        coll_request *r = begin_first(c);
        const coll_status status = progress(r);
        if (status == COLL_IN_PROGRESS)
            return;
        if (status < 0) {
            /* The first to be known wins: the cause, or else this. */
            fail_under_way(r, status);
            return;
        }
        end(r);
        pop(c);
        end_with(r, COLL_OK);
    }
}

void comm_serve(coll_comm *c)
{
    advance(c);
    const coll_status status = comm_check(c);
    if (status < 0 && comm_has_work(c))
        request_fail_as(c, status, c->sentence);
}

coll_status request_step(void *context)
{
    coll_request *r = context;
    if (r->status == COLL_IN_PROGRESS)
        advance(r->comm);
    return r->status;
}

bool request_finish_now(coll_request *r)
{
    /* Without a pause between them, which takes longer than a line does; but
     * who looks too soon or too often takes the line away from the rank that
     * is about to write it. */
    enum { LOOKS = 256 };
    coll_comm *c = r->comm;
    if (c->first || r->way == BY_PLAN)
        return false;
    begin(r);
    if (r->early < 0)
        return false;
    if (r->way == NODE_DIRECT)
        record_begun(r);
    coll_status status = progress(r);
    /* A short vector is out by then: to write it down takes nobody's time. */
    if (r->way == NODE_INLINE)
        record_begun(r);
    for (int i = 1; i < (c->spins ? LOOKS : 1) && status == COLL_IN_PROGRESS;
         i++)
        status = progress(r);
    if (status != COLL_OK) {
        r->early = status;
        return false;
    }
    end(r);
    c->finished++;
    return true;
}

void request_enqueue(coll_request *r)
{
    coll_comm *c = r->comm;
    r->next = NULL;
    *c->last_request = r;
    c->last_request = &r->next;
    advance(c);
}

const char *request_what(const coll_request *r)
{
    return r->p2p.way == P2P_SEND      ? "a send"
           : r->p2p.way == P2P_RECEIVE ? "a receive"
                                       : "a collective";
}

coll_status request_wait(coll_request *r)
{
    coll_comm *c = r->comm;
    const coll_status status =
        comm_wait(c, request_step, r, c->op_seconds, request_what(r));
    if (status < 0 && r->status == COLL_IN_PROGRESS)
        request_fail_as(c, status, c->sentence); /* the wait itself gave up */
    return r->status;
}

static bool awaits(const coll_comm *c, int rank)
{
    const coll_request *r = c->first;
    if (p2p_awaits(c, rank))
        return true;
    if (!r || !r->started || r->early < 0)
        return false;
    if (staged_serves(r))
        return staged_awaits(r, rank);
    return r->way == BY_PLAN ? exec_awaits(&r->prepared->exec, rank)
                             : node_awaits(r->comm->node, rank);
}

void comm_awaited(const coll_comm *c, char *text, size_t bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (int r = 0; r < c->nranks && length + 16 < bytes; r++)
        if (awaits(c, r))
            length += (size_t)snprintf(text + length, bytes - length, "%s %d",
                                       length ? "," : "", r);
}

static coll_status drained(void *context)
{
    coll_comm *c = context;
    advance(c);
    return c->first ? COLL_IN_PROGRESS : COLL_OK;
}

coll_status comm_drain(coll_comm *c)
{
    const coll_status status =
        comm_wait(c, drained, c, c->op_seconds, "an outstanding request");
    if (status < 0)
        request_fail_as(c, status, c->sentence);
    return status;
}

/* Of a request that ended with an error: the communicator's sentence; but one
 * that its group could not start has done the communicator no harm. */
static const char *why(const coll_request *r)
{
    return r->unstarted ? "the call did not start when its group ended: "
                          "coll_group_end() has said why"
                        : r->comm->sentence;
}

coll_status request_end(coll_request **request)
{
    coll_request *r = *request;
    const coll_status status = r->status;
    if (status < 0)
        fail(status, "comm", "%s", why(r));
    r->active = false;
    if (!r->persistent) {
        free(r->uneven);
        free(r);
        *request = NULL;
    }
    return status;
}

coll_status request_not_begun(const char *call)
{
    return fail(COLL_ERR_INVALID, "comm",
                "coll_%s: the request's group has not ended (coll_group_end())",
                call);
}

void comm_ask(coll_comm *c, const char *what)
{
    comm_progress(c);
    comm_serve(c);
    if (comm_has_work(c) && comm_asked(c, what) < 0)
        comm_serve(c);
}

coll_status coll_test(coll_request **request)
{
    if (!request)
        return fail(COLL_ERR_INVALID, "comm", "coll_test: request is NULL");
    coll_request *r = *request;
    if (!r || !r->active)
        return COLL_OK;
    coll_comm *c = r->comm;
    if (r->recorded)
        return request_not_begun("test");
    coll_status status = comm_enter(c, "test");
    if (status < 0)
        return status;
    if (r->status == COLL_IN_PROGRESS)
        comm_ask(c, request_what(r));
    status =
        r->status == COLL_IN_PROGRESS ? COLL_IN_PROGRESS : request_end(request);
    comm_leave(c);
    return status;
}

coll_status coll_wait(coll_request **request)
{
    if (!request)
        return fail(COLL_ERR_INVALID, "comm", "coll_wait: request is NULL");
    if (!*request || !(*request)->active)
        return COLL_OK;
    if ((*request)->recorded)
        return request_not_begun("wait");
    coll_comm *c = (*request)->comm;
    coll_status status = comm_enter(c, "wait");
    if (status < 0)
        return status;
    request_wait(*request);
    status = request_end(request);
    comm_leave(c);
    return status;
}
