/* SPDX-License-Identifier: MIT */
/* What runs a v-call: which algorithm, and on what. */
#include <string.h>

#include "base/log.h"
#include "comm/request.h"

/* alltoall_direct is for few ranks. */
const struct algo *uneven_by_parts(enum coll_kind kind, int nranks)
{
    const struct plan_shape shape = {.nranks = nranks};
    const bool pairs = kind == ALLTOALL && !few_ranks(&shape);
    return algo_find(kind, kind != ALLTOALL ? "linear"
                           : pairs          ? "pairwise"
                                            : "direct");
}

/* Whether ranks of one host may copy parts: each goes as by node_inline or
 * node_direct as long as it is, so who forbids one of them forbids it. */
static bool on_node(const coll_request *r, struct select_choice *choice)
{
    const struct select *s = &r->comm->select;
    return r->comm->nranks <= NODE_PARTS_RANKS
           && select_native(s, r->kind, NODE_INLINE_BYTES + 1, choice)
           && select_native(s, r->kind, 0, choice)
           && algos[choice->algo].way == NODE_INLINE;
}

coll_status uneven_choose(const coll_request *r, struct select_choice *choice)
{
    coll_comm *c = r->comm;
    if (uneven_is_known(r->kind))
        return select_uneven(&c->select, r->kind, request_bytes(r), choice);
    if (on_node(r, choice))
        return COLL_OK;
    *choice = (struct select_choice){
        .algo = (int)(uneven_by_parts(r->kind, c->nranks) - algos),
        .order = ORDER_GIVEN,
        .predicted = -1,
        .candidate = -1,
    };
    return COLL_OK;
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

static struct node_side side(const struct exec_chunks *chunks)
{
    return (struct node_side){chunks->before, chunks->at};
}

/* Which of the two vectors says the lengths of parts that this rank knows; of
 * an alltoall, that of those which it sends. */
static int telling(const coll_request *r)
{
    const bool is_root = r->root == r->comm->rank;
    return r->kind == ALLGATHER || (r->kind == GATHER && is_root)
           || (r->kind == SCATTER && !is_root);
}

coll_status uneven_set_node(coll_request *r, struct node_call *call)
{
    coll_comm *c = r->comm;
    struct uneven *u = r->uneven;
    struct exec_chunks all = u->chunks[telling(r)];
    call->count = u->longest;
    if (r->kind == ALLTOALL && r->in == r->out && u->all) {
        const coll_status status =
            comm_reserve_shared(c, u->all * r->elem_bytes);
        if (status < 0)
            return status;
        move(r, &all, r->out, c->shared, false);
        call->in = c->shared;
        all.at = NULL;
    }
    u->parts = (struct node_parts){
        .all = side(&all),
        .got = side(&u->chunks[1]),
        .own = !uneven_is_known(r->kind),
    };
    call->parts = &u->parts;
    return COLL_OK;
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

/* By ranks of one host, or by a plan whose messages are one part each. Where
 * all ranks know all lengths these are in the tag. */
static bool find_lengths(const coll_request *r, struct node_lengths *l)
{
    struct exec_lengths found;
    if (r->way != BY_PLAN) {
        *l = r->comm->node->differ; /* all ranks are here: a place is a rank */
        return !uneven_is_known(r->kind) && l->from >= 0;
    }
    if (!exec_find_lengths(&r->prepared->exec, &found))
        return false;
    *l = (struct node_lengths){found.peer, r->comm->rank,
                               found.sent / r->elem_bytes,
                               found.expected / r->elem_bytes};
    return true;
}

bool uneven_differs(const coll_request *r)
{
    struct node_lengths l;
    const char *name = request_name(r);
    if (!find_lengths(r, &l))
        return false;
    fail(COLL_ERR_MISMATCH, "comm",
         "ranks say different lengths: rank %d called %s with %zu %s for rank "
         "%d, but rank %d called %s with %zu from rank %d",
         l.from, name, l.sent, coll_dtype_name(r->dtype), l.to, l.to, name,
         l.expected, l.from);
    return true;
}

void uneven_finish(coll_request *r)
{
    struct uneven *u = r->uneven;
    if (u->packed)
        move(r, &u->chunks[1], r->out, u->packed, true);
}
