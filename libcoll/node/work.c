/* SPDX-License-Identifier: MIT */
/* What a rank does in a long collective once all vectors are within reach: its
 * slice of all results, or all of its own. */
#include "node/foreign.h"
#include "node/large.h"

enum { ALL = -1 };

/* One thing to do: combine the vectors of a rank or of all, from a byte on,
 * into those of a rank or of all. */
struct task {
    int from, to; /* place, or ALL */
    size_t in_at, out_at, count;
    bool stream;
};

/* Combines n->src[0..nsrc) into n->dst[0..ndst). */
static void combine(struct node *n, int nsrc, int ndst, size_t count,
                    bool stream)
{
    const struct node_call *c = &n->call;
    const size_t bytes = count * c->elem_bytes;
    if (c->combine)
        op_run(c->combine, n->dst, ndst, n->src, nsrc, count, n->n, stream);
    else
        op_copy(n->dst, ndst, n->src[0], bytes, stream);
    n->bytes_read += (size_t)nsrc * bytes;
    n->bytes_written += (size_t)ndst * bytes;
}

static coll_status fetch(struct node *n, int place, void *here,
                         const void *there, size_t bytes)
{
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    return foreign_read(n->peers[place].pid, here, there, bytes);
}

/* The sources of a piece; foreign ones are read into scratch, of which the rest
 * is left in *scratch. */
static coll_status gather_sources(struct node *n, const struct task *t,
                                  unsigned char **scratch, int *nsrc)
{
    const int first = t->from == ALL ? 0 : t->from;
    const int end = t->from == ALL ? n->n : t->from + 1;
    for (int i = first; i < end; i++) {
        char *x = n->ins[i].address + t->in_at;
        if (n->ins[i].foreign) {
            const coll_status status =
                fetch(n, i, *scratch, x, t->count * n->call.elem_bytes);
            if (status < 0)
                return status;
            x = (char *)*scratch;
            *scratch += n->piece_bytes;
        }
        n->src[(*nsrc)++] = x;
    }
    return COLL_OK;
}

static bool goes_to(const struct node *n, const struct task *t, int place)
{
    return t->to == ALL ? large_writes(&n->call, place) : t->to == place;
}

/* What foreign outputs get is written from a result that is near. */
static coll_status piece(struct node *n, const struct task *t)
{
    const struct node_call *c = &n->call;
    const size_t bytes = t->count * c->elem_bytes;
    unsigned char *scratch = n->scratch;
    int nsrc = 0, ndst = 0, nforeign = 0;
    coll_status status = gather_sources(n, t, &scratch, &nsrc);
    if (status < 0)
        return status;
    for (int i = 0; i < n->n; i++) {
        if (!goes_to(n, t, i))
            continue;
        char *const x = n->outs[i].address + t->out_at;
        if (n->outs[i].foreign)
            nforeign++;
        else if (c->combine || x != n->src[0])
            n->dst[ndst++] = x;
    }
    const void *result = ndst ? n->dst[0] : n->src[0];
    if (c->combine && !ndst)
        result = n->dst[ndst++] = scratch;
    if (ndst)
        combine(n, nsrc, ndst, t->count, t->stream && !nforeign);
    for (int i = 0; i < n->n && nforeign; i++)
        if (goes_to(n, t, i) && n->outs[i].foreign) {
            status = foreign_write(n->peers[i].pid, result,
                                   n->outs[i].address + t->out_at, bytes);
            if (status < 0)
                return status;
            n->bytes_read += bytes;
            n->bytes_written += bytes;
        }
    return COLL_OK;
}

static coll_status work(struct node *n, const struct task *whole)
{
    const size_t elem = n->call.elem_bytes;
    struct task t = *whole;
    const bool straight = !n->call.combine && n->ins[t.from].foreign
                          && t.to == n->me; /* no need to pass by scratch */
    if (straight)
        return fetch(n, t.from, n->outs[n->me].address + t.out_at,
                     n->ins[t.from].address + t.in_at, t.count * elem);
    if (!n->foreign)
        return piece(n, &t);
    for (size_t left = t.count; left; left -= t.count) {
        const size_t most = n->piece_bytes / elem;
        t.count = left < most ? left : most;
        const coll_status status = piece(n, &t);
        if (status < 0)
            return status;
        t.in_at += t.count * elem;
        t.out_at += t.count * elem;
    }
    return COLL_OK;
}

/* The slice of a rank: of n. Of a sum for the root, a rank moves n vectors'
 * slices through the system, n - 1 to read and one to write, and the root n -
 * 1: so it does as much more as that takes less. */
static struct large_share slice(const struct node *n)
{
    const struct node_call *c = &n->call;
    const int others = n->n - 1;
    if (c->kind != REDUCE || !n->foreign)
        return large_share(c, n->me, n->n, 0, c->count);
    const size_t shares = (size_t)n->n + (size_t)others * (size_t)others;
    const size_t line = 64 / c->elem_bytes;
    const size_t own = c->count / shares * (size_t)n->n / line * line;
    if (n->me == c->root)
        return (struct large_share){0, own};
    return large_share(c, n->me - (n->me > c->root), others, own,
                       c->count - own);
}

/* Each rank its slice of all results. */
static coll_status work_by_slices(struct node *n, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes;
    const size_t part = large_part_at(c, n->me) * elem;
    const struct large_share s = slice(n);
    struct task t = {ALL, ALL, s.first * elem, s.first * elem, s.count, stream};
    if (c->kind == BROADCAST)
        t.from = c->root;
    if (c->kind == ALLGATHER) {
        t.from = n->me;
        t.out_at = part;
    }
    return t.count ? work(n, &t) : COLL_OK;
}

/* From processes: each all of its own result but for what the root writes. */
static coll_status broadcast_foreign(struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t own = large_own_share(n), at = own * c->elem_bytes;
    struct task t = {c->root, n->me, 0, 0, own, false};
    if (n->me != c->root)
        return work(n, &t);
    t.count = c->count;
    coll_status status = work(n, &t);
    for (int k = 1; k < n->n && own < c->count && status == COLL_OK; k++) {
        t = (struct task){c->root, (n->me + k) % n->n, at,
                          at,      c->count - own,     false};
        status = work(n, &t);
    }
    return status;
}

/* Each rank all of its own result. */
static coll_status work_whole(struct node *n, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes;
    struct task t = {ALL, n->me, 0, 0, c->count, stream};
    if (c->kind == REDUCE_SCATTER) {
        t.in_at = large_part_at(c, n->me) * elem;
        t.count = large_part(c, n->me);
    }
    if (!large_writes(c, n->me) || !t.count)
        return COLL_OK;
    if (c->kind == BROADCAST && n->foreign)
        return broadcast_foreign(n);
    if (c->kind == BROADCAST)
        t.from = c->root;
    if (c->kind != ALLGATHER)
        return work(n, &t);
    for (int i = 0; i < n->n; i++) {
        t.from = (n->me + i) % n->n; /* not all at the same one */
        t.out_at = large_part_at(c, t.from) * elem;
        t.count = large_part(c, t.from);
        const coll_status status = t.count ? work(n, &t) : COLL_OK;
        if (status < 0)
            return status;
    }
    return COLL_OK;
}

coll_status large_work(struct node *n, bool whole, bool stream)
{
    const struct node_call *c = &n->call;
    return whole || c->kind == REDUCE_SCATTER || c->parts
               ? work_whole(n, stream)
               : work_by_slices(n, stream);
}
