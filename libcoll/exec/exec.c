/* SPDX-License-Identifier: MIT */
#include "exec/exec.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

coll_status exec_init(struct exec *e, const struct plan *plan,
                      struct transport *const *to)
{
    memset(e, 0, offsetof(struct exec, flight)); /* it is the most of it */
    e->plan = plan;
    e->to = to;
    e->finished = calloc((size_t)plan->nsteps + 1, sizeof(*e->finished));
    return e->finished ? COLL_OK : COLL_ERR_MEMORY;
}

void exec_free(struct exec *e)
{
    free(e->finished);
    e->finished = NULL;
}

/* The first element of a chunk; chunk sizes differ by at most one element. */
static size_t chunk_start(const struct exec *e, int32_t chunk)
{
    const size_t c = (size_t)chunk;
    return c * e->chunk_min + (c < e->nlonger ? c : e->nlonger);
}

size_t exec_tmp_bytes(const struct plan *p, size_t count, size_t elem_bytes)
{
    const size_t nchunks = (size_t)p->nchunks;
    const size_t longest = count / nchunks + (count % nchunks != 0);
    return ((size_t)p->nslots * longest + (p->sums ? count : 0)) * elem_bytes;
}

/* Where the vector would start of which part is so far behind the start. The
 * plan only names what is in the part. */
static char *whole(const void *part, size_t bytes)
{
    return part ? (char *)((uintptr_t)part - bytes) : NULL;
}

void exec_start(struct exec *e, const struct exec_call *call)
{
    const size_t nchunks = (size_t)e->plan->nchunks;
    e->call = *call;
    e->base[PLAN_IN] = whole(call->in, call->in_first * call->elem_bytes);
    e->base[PLAN_OUT] = whole(call->out, call->out_first * call->elem_bytes);
    e->base[PLAN_SUM] = call->tmp;
    e->base[PLAN_TMP] = call->tmp;
    if (call->tmp && e->plan->sums)
        e->base[PLAN_TMP] += call->count * call->elem_bytes;
    e->chunk_min = call->count / nchunks;
    e->nlonger = call->count % nchunks;
    e->slot_bytes = (e->chunk_min + (e->nlonger > 0)) * call->elem_bytes;
    e->next = 0;
    e->flying = 0;
    e->bytes_read = e->bytes_written = 0;
    e->news = call->news;
    e->run++;
}

static bool finished(const struct exec *e, step_id s)
{
    return s == PLAN_START || e->finished[s] == e->run;
}

static char *address(const struct exec *e, int buf, const struct step *s,
                     size_t offset)
{
    if (!e->base[buf])
        return NULL;
    return e->base[buf]
           + (buf == PLAN_TMP ? (size_t)s->slot * e->slot_bytes : offset);
}

static void start_transfer(struct exec *e, step_id id, const struct step *s,
                           size_t offset, size_t bytes)
{
    const int free_slot = __builtin_ctzll(~e->flying);
    struct transfer *t = &e->flight[free_slot].transfer;
    struct transport *to = e->to ? e->to[s->peer] : e->meter;
    const bool sends = s->kind == PLAN_SEND;
    *t = (struct transfer){
        .buf = address(e, sends ? s->a : s->dst, s, offset),
        .bytes = bytes,
        .peer = s->peer,
        .tag = e->call.tag,
        .news = e->news,
        .status = COLL_IN_PROGRESS,
    };
    e->flight[free_slot].step = id;
    e->flying |= 1ull << free_slot;
    e->bytes_read += bytes;
    e->bytes_written += bytes;
    if (sends)
        to->ops->send(to, t);
    else
        to->ops->recv(to, t);
}

static void do_local(struct exec *e, const struct step *s, size_t offset,
                     size_t count, size_t bytes)
{
    void *const dst = address(e, s->dst, s, offset);
    const void *const a = address(e, s->a, s, offset);
    if (s->kind == PLAN_REDUCE) {
        const void *const src[] = {a, address(e, s->b, s, offset)};
        if (dst)
            op_run(e->call.reduce, &dst, 1, src, 2, count, 1, false);
        e->bytes_read += 2 * bytes;
        e->bytes_written += bytes;
    } else if (dst != a) {
        if (dst)
            memcpy(dst, a, bytes);
        e->bytes_read += bytes;
        e->bytes_written += bytes;
    }
    if (e->meter && e->meter->ops->work)
        e->meter->ops->work(e->meter, bytes, s->kind == PLAN_REDUCE);
}

/* Starts one step. Local steps finish here; transfers may keep flying. */
static void start(struct exec *e, step_id id)
{
    const struct step *s = &e->plan->steps[id];
    const size_t first = chunk_start(e, s->chunk);
    const size_t count = chunk_start(e, s->chunk + s->nchunks) - first;
    const size_t offset = first * e->call.elem_bytes;
    const size_t bytes = count * e->call.elem_bytes;

    if (bytes > 0 && (s->kind == PLAN_SEND || s->kind == PLAN_RECV)) {
        start_transfer(e, id, s, offset, bytes);
        return;
    }
    if (bytes > 0 && s->kind != PLAN_JOIN)
        do_local(e, s, offset, count, bytes);
    e->finished[id] = e->run;
}

static void hear(struct exec *e, uint16_t news)
{
    if (news && (!e->news || news < e->news))
        e->news = news;
}

/* Takes a transfer that is over out of the window. */
static coll_status land(struct exec *e, int i)
{
    const coll_status status = e->flight[i].transfer.status;
    if (status < 0)
        return status;
    hear(e, e->flight[i].transfer.news);
    e->finished[e->flight[i].step] = e->run;
    e->flying &= ~(1ull << i);
    return COLL_OK;
}

static coll_status land_all(struct exec *e)
{
    coll_status status = COLL_OK;
    for (uint64_t left = e->flying; left && status == COLL_OK;
         left &= left - 1) {
        const int i = __builtin_ctzll(left);
        if (e->flight[i].transfer.status != COLL_IN_PROGRESS)
            status = land(e, i);
    }
    return status;
}

/* Starts all steps that may; whether there were any. */
static bool start_all(struct exec *e)
{
    const struct plan *p = e->plan;
    const step_id before = e->next;
    while (e->next < p->nsteps && ~e->flying) {
        const struct step *s = &p->steps[e->next];
        if (!finished(e, s->after[0]) || !finished(e, s->after[1]))
            break;
        start(e, e->next++);
    }
    return e->next != before;
}

static coll_status state(const struct exec *e)
{
    return e->next == e->plan->nsteps && !e->flying ? COLL_OK
                                                    : COLL_IN_PROGRESS;
}

coll_status exec_progress(struct exec *e)
{
    do {
        const coll_status status = land_all(e);
        if (status < 0)
            return status;
        /* What was just started may have finished at once. */
    } while (start_all(e));
    return state(e);
}

coll_status exec_follow(struct exec *e, const struct transfer *over)
{
    if (over) {
        const size_t bytes = (size_t)((const char *)over - (char *)e->flight);
        const coll_status status = land(e, (int)(bytes / sizeof(e->flight[0])));
        if (status < 0)
            return status;
    }
    start_all(e);
    return state(e);
}

bool exec_awaits(const struct exec *e, int peer)
{
    for (uint64_t left = e->flying; left; left &= left - 1) {
        const struct transfer *t = &e->flight[__builtin_ctzll(left)].transfer;
        if (t->peer == peer && t->status == COLL_IN_PROGRESS)
            return true;
    }
    return false;
}
