/* SPDX-License-Identifier: MIT */
/* What runs a v-call: which algorithm, and on what. */
#include <string.h>

#include "base/log.h"
#include "comm/request.h"

/* A message for each part. Also of many ranks: alltoall_direct is for few. */
static const struct algo *by_parts(enum coll_kind kind, int nranks)
{
    const struct plan_shape shape = {.nranks = nranks};
    const bool pairs = kind == ALLTOALL && !few_ranks(&shape);
    return algo_find(kind, kind != ALLTOALL ? "linear"
                           : pairs          ? "pairwise"
                                            : "direct");
}

coll_status uneven_choose(const coll_request *r, struct select_choice *choice)
{
    coll_comm *c = r->comm;
    if (uneven_is_known(r->kind))
        return select_uneven(&c->select, r->kind, request_bytes(r), choice);
    *choice = (struct select_choice){
        .algo = (int)(by_parts(r->kind, c->nranks) - algos),
        .order = ORDER_GIVEN,
        .predicted = -1,
        .candidate = -1,
    };
    return COLL_OK;
}

void uneven_set_node(coll_request *r, struct node_call *call)
{
    struct uneven *u = r->uneven;
    const struct exec_chunks *all = &u->chunks[r->kind == ALLGATHER];
    u->parts = (struct node_parts){all->before, all->at};
    call->parts = &u->parts;
    call->count = u->longest;
}

/* Parts, from where they lie one after another to their places or back. */
static void move(coll_request *r, const struct exec_chunks *chunks,
                 char *vector, char *packed, bool back)
{
    coll_comm *c = r->comm;
    const size_t elem = r->elem_bytes;
    for (int i = 0; i < c->nranks; i++) {
        const size_t bytes = uneven_part(chunks, i) * elem;
        char *const one = vector + uneven_place(chunks, i) * elem;
        char *const other = packed + chunks->before[i] * elem;
        if (bytes)
            memcpy(back ? one : other, back ? other : one, bytes);
        c->tally[r->kind].bytes_read += bytes;
        c->tally[r->kind].bytes_written += bytes;
    }
}

coll_status uneven_prepare(coll_request *r, struct exec_call *call)
{
    enum { LINE = 64 };
    coll_comm *c = r->comm;
    struct uneven *u = r->uneven;
    struct exec *e = &r->prepared->exec;
    struct exec_chunks *in = &u->plan[0], *out = &u->plan[1];
    const bool packs = u->chunks[1].at && e->plan->runs;
    const bool aside = r->kind == ALLTOALL && r->in == r->out;
    size_t scratch;
    coll_status status = exec_lay_out(e, u->chunks, r->elem_bytes, &scratch);
    if (status < 0)
        return fail(status, "comm", "no memory for the chunks of a plan");
    scratch = (scratch + LINE - 1) / LINE * LINE;
    status = comm_reserve(
        c, scratch + (packs || aside ? u->all * r->elem_bytes : 0));
    if (status < 0)
        return status;
    char *const more = (char *)c->tmp + scratch;
    *in = u->chunks[0];
    *out = u->chunks[1];
    call->tmp = c->tmp;
    call->chunks = u->plan;
    call->in_first = call->out_first = 0;
    u->packed = NULL;
    if (packs) {
        u->packed = call->out = more;
        out->at = NULL;
    }
    if (aside) {
        move(r, in, r->out, more, false);
        call->in = more;
        in->at = NULL;
    }
    return COLL_OK;
}

/* Where all ranks know all lengths these are in the tag, so this is of a plan
 * whose messages are one part each. */
bool uneven_differs(const coll_request *r)
{
    struct exec_lengths l;
    const int me = r->comm->rank;
    const char *name = request_name(r);
    if (!exec_find_lengths(&r->prepared->exec, &l))
        return false;
    fail(COLL_ERR_MISMATCH, "comm",
         "ranks say different lengths: rank %d called %s with %zu %s for rank "
         "%d, but rank %d called %s with %zu from rank %d",
         l.peer, name, l.sent / r->elem_bytes, coll_dtype_name(r->dtype), me,
         me, name, l.expected / r->elem_bytes, l.peer);
    return true;
}

void uneven_finish(coll_request *r)
{
    struct uneven *u = r->uneven;
    if (u->packed)
        move(r, &u->chunks[1], r->out, u->packed, true);
}
