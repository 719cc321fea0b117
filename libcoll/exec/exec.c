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
    if (plan->combines)
        e->src = malloc((size_t)plan->combines * sizeof(*e->src));
    return e->finished && (e->src || !plan->combines) ? COLL_OK
                                                      : COLL_ERR_MEMORY;
}

void exec_free(struct exec *e)
{
    free(e->finished);
    free(e->slot_at);
    free(e->src);
    e->finished = NULL;
    e->slot_at = NULL;
    e->src = NULL;
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

static size_t length(const struct exec_chunks *chunks, int32_t chunk, int32_t n)
{
    return chunks->before[chunk + n] - chunks->before[chunk];
}

/* Each slot for the longest of the chunks that are ever in it. */
static void lay_out(const struct plan *p, const struct exec_chunks *chunks,
                    size_t *slot_at)
{
    memset(slot_at, 0, ((size_t)p->nslots + 1) * sizeof(*slot_at));
    for (step_id id = 0; id < p->nsteps; id++) {
        const struct step *s = &p->steps[id];
        if (s->kind == PLAN_JOIN
            || (s->dst != PLAN_TMP && s->a != PLAN_TMP && s->b != PLAN_TMP))
            continue;
        for (int32_t i = 0; i < s->nchunks; i++) {
            const size_t needed = length(chunks, s->chunk + i, 1);
            size_t *const slot = &slot_at[s->slot + i + 1];
            *slot = *slot > needed ? *slot : needed;
        }
    }
    for (int i = 0; i < p->nslots; i++)
        slot_at[i + 1] += slot_at[i];
}

coll_status exec_lay_out(struct exec *e, const struct exec_chunks *in,
                         size_t elem_bytes, size_t *tmp_bytes)
{
    const struct plan *p = e->plan;
    const size_t nslots = (size_t)p->nslots;
    if (!e->slot_at)
        e->slot_at = malloc((nslots + 1) * sizeof(*e->slot_at));
    if (!e->slot_at)
        return COLL_ERR_MEMORY;
    lay_out(p, in, e->slot_at);
    *tmp_bytes = (e->slot_at[nslots] + (p->sums ? in->before[p->nchunks] : 0))
                 * elem_bytes;
    return COLL_OK;
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
    e->bytes_read = e->bytes_written = e->messages = 0;
    e->news = call->news;
    e->run++;
}

static bool finished(const struct exec *e, step_id s)
{
    return s == PLAN_START || e->finished[s] == e->run;
}

static const struct exec_chunks *chunks_of(const struct exec *e, int buf)
{
    return &e->call.chunks[buf == PLAN_OUT];
}

/* In elements, of a step's chunks that are of any lengths. */
static size_t position(const struct exec *e, int buf, const struct step *s)
{
    const struct exec_chunks *chunks = chunks_of(e, buf);
    if (buf == PLAN_TMP)
        return e->slot_at[s->slot - s->before]
               + length(chunks, s->chunk - s->before, s->before);
    return chunks->at && buf != PLAN_SUM ? chunks->at[s->chunk]
                                         : chunks->before[s->chunk];
}

static char *address(const struct exec *e, int buf, const struct step *s,
                     size_t offset)
{
    if (!e->base[buf])
        return NULL;
    if (e->call.chunks)
        return e->base[buf] + position(e, buf, s) * e->call.elem_bytes;
    return e->base[buf]
           + (buf == PLAN_TMP ? (size_t)s->slot * e->slot_bytes : offset);
}

static void start_transfer(struct exec *e, step_id id, const struct step *s,
                           void *buf, size_t bytes, uint32_t tag)
{
    const int free_slot = __builtin_ctzll(~e->flying);
    struct transfer *t = &e->flight[free_slot].transfer;
    struct transport *to = e->to ? e->to[s->peer] : e->meter;
    const bool sends = s->kind == PLAN_SEND;
    *t = (struct transfer){
        .buf = buf,
        .bytes = bytes,
        .peer = s->peer,
        .tag = tag,
        .news = e->news,
        .status = COLL_IN_PROGRESS,
    };
    e->flight[free_slot].step = id;
    e->flying |= 1ull << free_slot;
    e->bytes_read += bytes;
    e->bytes_written += bytes;
    e->messages += sends;
    if (sends)
        to->ops->send(to, t);
    else
        to->ops->recv(to, t);
}

static char *slot_address(const struct exec *e, int32_t slot)
{
    return e->base[PLAN_TMP]
           + (e->call.chunks ? e->slot_at[slot] * e->call.elem_bytes
                             : (size_t)slot * e->slot_bytes);
}

/* In the order of ranks, which is that of positions from call.first on, round.
 */
static void combine(struct exec *e, const struct step *s, size_t offset,
                    size_t count, size_t bytes)
{
    void *const dst = address(e, s->dst, s, offset);
    for (int i = 0; i < s->nsrc; i++) {
        const int position = (e->call.first + i) % s->nsrc;
        const int slot = position - (position > s->peer);
        e->src[i] = position == s->peer
                        ? address(e, s->a, s, offset)
                        : slot_address(e, s->slot + slot * s->nchunks);
    }
    op_run(e->call.reduce, &dst, 1, e->src, s->nsrc, count, e->call.divisor,
           false);
    e->bytes_read += (size_t)s->nsrc * bytes;
    e->bytes_written += bytes;
}

/* Sums of so many bytes, or a copy. */
static size_t work_bytes(const struct step *s, size_t bytes)
{
    return s->kind == PLAN_COMBINE ? (size_t)(s->nsrc - 1) * bytes : bytes;
}

static void do_local(struct exec *e, const struct step *s, size_t offset,
                     size_t count, size_t bytes)
{
    void *const dst = address(e, s->dst, s, offset);
    const void *const a = address(e, s->a, s, offset);
    if (s->kind == PLAN_COMBINE) {
        if (dst)
            combine(e, s, offset, count, bytes);
    } else if (s->kind == PLAN_REDUCE) {
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
        e->meter->ops->work(e->meter, work_bytes(s, bytes),
                            s->kind != PLAN_COPY);
}

/* Of the chunks of a step; *offset: in a buffer where they lie one after
 * another. */
static size_t count_of(const struct exec *e, const struct step *s,
                       size_t *offset)
{
    *offset = 0;
    if (e->call.chunks)
        return length(chunks_of(e, s->kind == PLAN_SEND ? s->a : s->dst),
                      s->chunk, s->nchunks);
    const size_t first = chunk_start(e, s->chunk);
    *offset = first * e->call.elem_bytes;
    return chunk_start(e, s->chunk + s->nchunks) - first;
}

/* Starts one step. Local steps finish here; transfers may keep flying. */
static void start(struct exec *e, step_id id)
{
    const struct step *s = &e->plan->steps[id];
    const bool sends = s->kind == PLAN_SEND;
    size_t offset;
    const size_t count = count_of(e, s, &offset);
    const size_t bytes = count * e->call.elem_bytes;

    if (sends || s->kind == PLAN_RECV) {
        if (bytes > 0) {
            start_transfer(e, id, s,
                           address(e, sends ? s->a : s->dst, s, offset), bytes,
                           e->call.tag);
            return;
        }
        if (e->call.chunks) {
            start_transfer(e, id, s, &e->nothing[!sends], 1,
                           e->call.tag ^ EXEC_NOTHING);
            return;
        }
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

static bool is_other_length(const struct exec *e, const struct transfer *t,
                            struct exec_lengths *l)
{
    const uint32_t other = t->tag ^ e->call.tag;
    if (t->status != COLL_ERR_MISMATCH || !t->moved
        || (other && other != EXEC_NOTHING))
        return false;
    *l = (struct exec_lengths){
        .peer = t->peer,
        .sent = other ? 0 : t->moved,
        .expected = t->buf == &e->nothing[1] ? 0 : t->bytes,
    };
    return true;
}

bool exec_find_lengths(const struct exec *e, struct exec_lengths *lengths)
{
    for (uint64_t left = e->flying; left; left &= left - 1)
        if (is_other_length(e, &e->flight[__builtin_ctzll(left)].transfer,
                            lengths))
            return true;
    return false;
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
