/* SPDX-License-Identifier: MIT */
/* Plans ready to run: built at first use, kept with their executors, and the
 * scratch that they share. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/explain.h"
#include "comm/request.h"

size_t request_bytes(const coll_request *r)
{
    return r->kind == BARRIER
               ? 1
               : r->count * request_parts(r) * coll_dtype_bytes(r->dtype);
}

static int position_of(const int *order, int rank)
{
    int i = 0;
    while (order[i] != rank)
        i++;
    return i;
}

/* Hosts become the ranks that run the plan with this one: those of its place
 * where each rank carries something, else the leaders. */
static void put_ranks(const coll_comm *c, const struct prepared *p, int *order)
{
    const struct hosts *h = &c->hosts;
    const enum coll_kind kind = algos[p->algo].kind;
    const bool each = kind == REDUCE_SCATTER || kind == ALLGATHER
                      || (kind == ALLREDUCE && h->even);
    for (int i = 0; i < h->n; i++)
        order[i] = each ? hosts_rank(h, order[i], h->place_of[c->rank])
                        : hosts_leader(h, order[i], p->root);
}

static coll_status build(coll_comm *c, struct prepared *p)
{
    const bool by_hosts = layout_by_hosts(p->order);
    const struct layout *l = by_hosts ? &c->hosts.layout : &c->layout;
    const enum coll_kind kind = algos[p->algo].kind;
    const bool parts = kind_has_parts(kind);
    const bool fixed = parts || p->keeps; /* a root is where it is */
    /* What combines in order wants positions that are hosts, from the root's on
     * in a circle: groups of hosts turn each on its own. */
    const enum layout_order way =
        by_hosts && (parts || algo_in_order(&algos[p->algo]))
            ? ORDER_GIVEN
            : layout_of_positions(p->order);
    const int root = by_hosts ? c->hosts.host_of[p->root] : p->root;
    struct plan_tree tree = {.nlevels = 0};
    int *order = malloc((size_t)l->nranks * sizeof(int));
    coll_status status = order ? COLL_OK : COLL_ERR_MEMORY;
    if (status == COLL_OK)
        status = layout_fill_order(l, way, fixed ? 0 : root, order);
    if (status == COLL_OK)
        status = layout_fill_tree(l, order, &tree);
    if (status == COLL_OK && by_hosts)
        put_ranks(c, p, order);
    if (status == COLL_OK) {
        algos[p->algo].plan(&p->plan, &(struct plan_shape){
                                          .rank = position_of(order, c->rank),
                                          .nranks = l->nranks,
                                          .segments = 1 << p->variant,
                                          .tree = &tree,
                                          .root = fixed ? root : 0,
                                      });
        plan_renumber(&p->plan, order);
        status = p->plan.status == COLL_OK
                     ? exec_init(&p->exec, &p->plan, c->to)
                     : p->plan.status;
    }
    layout_free_tree(&tree);
    free(order);
    return status;
}

coll_status comm_prepare(coll_comm *c, const struct select_choice *choice,
                         int root, struct prepared **prepared)
{
    struct prepared **at = &c->prepared[choice->algo];
    const int variant = choice->cut ? 0 : choice->variant; /* one plan serves */
    const bool keeps = choice->keeps && algos[choice->algo].kind == REDUCE
                       && !algo_in_order(&algos[choice->algo]);
    while (*at
           && ((*at)->root != root || (*at)->order != choice->order
               || (*at)->variant != variant || (*at)->keeps != keeps))
        at = &(*at)->next;
    if (!*at) {
        struct prepared *p = calloc(1, sizeof(*p));
        if (p) {
            p->algo = choice->algo;
            p->order = choice->order;
            p->variant = variant;
            p->root = root;
            p->keeps = keeps;
        }
        if (!p || build(c, p) < 0) {
            if (p)
                plan_free(&p->plan);
            free(p);
            return fail(COLL_ERR_MEMORY, "comm", "no memory for a plan of %s",
                        algos[choice->algo].full_name);
        }
        *at = p;
    }
    *prepared = *at;
    return COLL_OK;
}

void comm_free_prepared(coll_comm *c)
{
    for (int i = 0; c->prepared && i < nalgos; i++)
        while (c->prepared[i]) {
            struct prepared *p = c->prepared[i];
            c->prepared[i] = p->next;
            exec_free(&p->exec);
            plan_free(&p->plan);
            free(p);
        }
    free(c->prepared);
    free(c->tmp);
    free(c->uneven);
    if (c->shared)
        heap_free(c->shared);
}

/* Scratch only grows. One operation runs at a time, so none uses it now. */
coll_status comm_reserve(coll_comm *c, size_t bytes)
{
    if (bytes <= c->tmp_bytes)
        return COLL_OK;
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    void *tmp = aligned_alloc(4096, rounded);
    if (!tmp)
        return fail(COLL_ERR_MEMORY, "comm",
                    "no memory for %zu bytes of scratch", rounded);
    free(c->tmp);
    c->tmp = tmp;
    c->tmp_bytes = rounded;
    return COLL_OK;
}

/* The heap's blocks are never used twice, so this grows in large steps. */
coll_status comm_reserve_shared(coll_comm *c, size_t bytes)
{
    if (bytes <= c->shared_bytes)
        return COLL_OK;
    const size_t wanted =
        bytes < 2 * c->shared_bytes ? 2 * c->shared_bytes : bytes;
    void *shared;
    const coll_status status = heap_alloc(&shared, wanted);
    if (status < 0)
        return status;
    if (c->shared)
        heap_free(c->shared);
    c->shared = shared;
    c->shared_bytes = wanted;
    return COLL_OK;
}

/* The same lines on all ranks; operations are counted from the first one of the
 * communicator, whatever ran it. */
static void log_choice(const coll_request *r)
{
    log_line(COLL_LOG_DEBUG, "select",
             "operation %u: %s of %zu bytes runs %s %s %d%s",
             (unsigned)r->comm->finished, request_name(r), request_bytes(r),
             algos[r->choice.algo].name, layout_order_names[r->choice.order],
             1 << r->choice.variant, r->choice.trial ? ", a trial" : "");
}

static coll_status choose_meeting(coll_request *r)
{
    const coll_status status = select_meeting(&r->comm->select, &r->choice);
    if (status == COLL_OK)
        log_line(COLL_LOG_DEBUG, "select",
                 "before operation %u, which is timed, the ranks meet by %s %s",
                 (unsigned)r->comm->finished, algos[r->choice.algo].name,
                 layout_order_names[r->choice.order]);
    return status;
}

coll_status request_choose(coll_request *r)
{
    coll_comm *c = r->comm;
    if (r->meeting)
        return choose_meeting(r);
    const coll_status status =
        r->in_order ? select_in_order(
            &c->select, r->kind, request_bytes(r),
            (struct select_need){r->in_order, r->uneven != NULL, r->timed},
            &r->choice)
        : r->uneven ? uneven_choose(r, &r->choice)
        : r->timed
            ? select_next(&c->select, r->kind, request_bytes(r), &r->choice)
            : select_best(&c->select, r->kind, request_bytes(r), &r->choice);
    if (status == COLL_OK && c->explains && c->rank == 0 && !r->uneven
        && (!r->in_order || r->in_order == IN_PAIRS))
        explain_aloud(c, r->kind, r->in_order, request_bytes(r));
    if (status == COLL_OK)
        log_choice(r);
    return status;
}

/* What is sent would be written over before it is sent: so all of it is taken
 * from a copy, behind the plan's own scratch. */
static coll_status copy_aside(coll_request *r, struct exec_call *call,
                              size_t tmp)
{
    coll_comm *c = r->comm;
    const size_t bytes = call->count * call->elem_bytes;
    const coll_status status = comm_reserve(c, tmp + bytes);
    if (status < 0 || !bytes)
        return status;
    call->tmp = c->tmp;
    call->in = memcpy((char *)c->tmp + tmp, r->in, bytes);
    c->tally[r->kind].bytes_read += bytes;
    c->tally[r->kind].bytes_written += bytes;
    return COLL_OK;
}

/* The vector as the plan sees it: all of what one rank holds in full. */
coll_status request_prepare(coll_request *r, struct exec_call *call)
{
    coll_comm *c = r->comm;
    const size_t before = r->count * (size_t)c->rank;
    const size_t parts = request_parts(r);
    coll_status status = comm_prepare(c, &r->choice, r->root, &r->prepared);
    if (status < 0)
        return status;
    *call = (struct exec_call){
        .in = r->in,
        .out = r->out,
        .count = r->count * request_parts(r),
        .elem_bytes = r->elem_bytes,
        .in_first = request_in_parts(r) < parts ? before : 0,
        .out_first = request_out_parts(r) < parts ? before : 0,
        .reduce = r->combine,
        .first = (c->nranks - r->root) % c->nranks,
        .divisor = c->nranks,
        .news = c->news,
    };
    if (r->kind == BARRIER) { /* one byte to send */
        call->in = "";
        call->count = 1;
    }
    if (r->uneven)
        return uneven_prepare(r, call);
    const size_t tmp =
        exec_tmp_bytes(&r->prepared->plan, call->count, call->elem_bytes);
    if (r->kind == ALLTOALL && r->in == r->out && c->nranks > 1)
        return copy_aside(r, call, tmp);
    status = comm_reserve(c, tmp);
    call->tmp = c->tmp;
    return status;
}
