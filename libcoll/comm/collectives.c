/* SPDX-License-Identifier: MIT */
/* The public collective calls: check arguments, select, run.
 *
 * A blocking call on a prepared shape allocates nothing and makes no system
 * call before its first empty poll.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "comm/config.h"
#include "comm/group.h"
#include "comm/owner.h"
#include "comm/red_op.h"
#include "comm/request.h"

static bool reads_in(const coll_request *r)
{
    const bool root_only = r->kind == BROADCAST || r->kind == SCATTER;
    return !root_only || r->root == r->comm->rank;
}

static bool writes_out(const coll_request *r)
{
    const bool root_only = r->kind == REDUCE || r->kind == GATHER;
    return !root_only || r->root == r->comm->rank;
}

static coll_status check_overlap(const coll_request *r, size_t bytes)
{
    const uintptr_t in = (uintptr_t)r->in, out = (uintptr_t)r->out;
    const size_t mine = bytes * (size_t)r->comm->rank;
    const size_t ins = request_in_parts(r), outs = request_out_parts(r);
    const bool in_place = ins > outs   ? out == in + mine
                          : outs > ins ? in == out + mine
                                       : in == out;
    if (in_place || !reads_in(r) || !writes_out(r) || out >= in + bytes * ins
        || in >= out + bytes * outs)
        return COLL_OK;
    static const char *const unless[NKINDS] = {
        [REDUCE_SCATTER] = "recv being send + rank * recvcount",
        [ALLGATHER] = "send being recv + rank * sendcount",
        [GATHER] = "send being recv + root * sendcount",
        [SCATTER] = "recv being send + root * recvcount",
    };
    return fail(
        COLL_ERR_INVALID, "comm", "coll_%s: send and recv overlap without %s",
        kind_names[r->kind], unless[r->kind] ? unless[r->kind] : "being equal");
}

static coll_status check_arguments(const coll_request *r)
{
    const char *name = request_name(r);
    const size_t elem = coll_dtype_bytes(r->dtype);
    if (!r->comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: the communicator is NULL", name);
    if (!elem)
        return fail(COLL_ERR_INVALID, "comm", "coll_%s: %d is no coll_dtype",
                    name, (int)r->dtype);
    if (kind_reduces(r->kind) && !coll_op_name(r->op))
        return fail(COLL_ERR_INVALID, "comm", "coll_%s: %d is no coll_op", name,
                    (int)r->op);
    if (r->root < 0 || r->root >= r->comm->nranks)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: root %d is no rank of %d", name, r->root,
                    r->comm->nranks);
    const size_t parts = request_parts(r);
    if (r->count > SIZE_MAX / 2 / elem / parts)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: %zu elements of %zu bytes%s are more than an "
                    "address space holds",
                    name, r->count, elem, parts > 1 ? " for each rank" : "");
    return COLL_OK;
}

static coll_status check_vectors(const coll_request *r, size_t elem)
{
    const char *name = kind_names[r->kind];
    if (r->uneven)
        return uneven_check(r);
    if (r->count && reads_in(r) && !r->in)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: send is NULL with count %zu", name, r->count);
    if (r->count && writes_out(r) && !r->out)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: recv is NULL with count %zu", name, r->count);
    return check_overlap(r, r->count * elem);
}

/* What all ranks must agree on. */
static uint32_t fingerprint(const coll_request *r)
{
    uint64_t h = (uint64_t)r->kind << 16 ^ (uint64_t)r->dtype << 8
                 ^ (uint64_t)r->op ^ (uint64_t)r->root << 32;
    h = (h ^ r->count) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(h >> 32);
}

/* Where a call like this one would be kept: a row for each kind, and in it a
 * place by what programs vary most. */
static struct recent *recall(const coll_request *r)
{
    const size_t mix = r->count * 5 + (size_t)r->dtype * 3 + (size_t)r->root;
    return &r->comm->recent[r->kind][mix % RECENT_CALLS];
}

static bool is_like(const struct recent *recent, const coll_request *r)
{
    return recent->known && recent->count == r->count
           && recent->dtype == r->dtype && recent->op == r->op
           && recent->root == r->root && recent->uneven == (r->uneven != NULL);
}

/* Checks that something can serve the call, and keeps what does not change from
 * one like it to the next. Which plan it runs is chosen when it starts. */
static coll_status look_up(const coll_request *r)
{
    coll_comm *c = r->comm;
    struct select_choice choice;
    struct reduction how = {.combine = NULL};
    char name[32];
    coll_status status = COLL_OK;
    if (kind_reduces(r->kind)) {
        snprintf(name, sizeof(name), "coll_%s", request_name(r));
        status = red_op_find(c, name, r->dtype, r->op, &how);
    }
    if (status == COLL_OK && how.in_order)
        status = select_in_order(
            &c->select, r->kind, request_bytes(r),
            (struct select_need){.order = how.in_order, .uneven = r->uneven},
            &choice);
    else if (status == COLL_OK)
        status = r->uneven ? uneven_choose(r, &choice)
                           : select_best(&c->select, r->kind, request_bytes(r),
                                         &choice);
    if (status == COLL_OK)
        *recall(r) = (struct recent){
            .known = true,
            .uneven = r->uneven != NULL,
            .count = r->count,
            .dtype = r->dtype,
            .op = r->op,
            .root = r->root,
            .way = algos[choice.algo].way,
            .node_algo = choice.algo,
            .combine = how.combine,
            .scaled = how.scaled,
            .in_order = how.in_order,
            .flat = how.flat,
            .elem_bytes = coll_dtype_bytes(r->dtype),
            .fingerprint = fingerprint(r),
        };
    return status;
}

static coll_status fill(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct recent *like = recall(r);
    r->status = COLL_IN_PROGRESS;
    r->way = like->way;
    r->choice.algo = like->node_algo;
    r->choice.order = ORDER_GIVEN;
    r->choice.variant = 0;
    r->combine = like->combine;
    r->scaled = like->scaled;
    r->in_order = like->in_order;
    r->flat = like->flat;
    r->elem_bytes = like->elem_bytes;
    r->fingerprint = like->fingerprint;
    if (r->uneven)
        r->fingerprint ^= r->uneven->hash;
    const coll_status status = comm_check(c);
    return status < 0 ? fail(status, "comm", "%s", c->sentence) : COLL_OK;
}

static coll_status check_all(const coll_request *r)
{
    const struct recent *like = recall(r);
    if (is_like(like, r))
        return check_vectors(r, like->elem_bytes);
    coll_status status = check_arguments(r);
    if (status == COLL_OK)
        status = check_vectors(r, coll_dtype_bytes(r->dtype));
    return status == COLL_OK ? look_up(r) : status;
}

coll_status request_run(coll_request *here, coll_request **request)
{
    coll_request *r = here;
    coll_status status = check_all(here);
    if (status == COLL_OK)
        status = fill(here);
    if (status < 0)
        return status;
    struct group *const group = group_open();
    if (group)
        return group_add(group, here, request);
    if (request) {
        r = malloc(sizeof(*r));
        if (!r)
            return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
        request_copy(r, here);
    }
    if (!request && request_finish_now(r))
        return COLL_OK;
    request_enqueue(r);
    if (request) {
        *request = r;
        return COLL_OK;
    }
    status = request_wait(r);
    return status < 0 ? fail(status, "comm", "%s", here->comm->sentence)
                      : status;
}

coll_status request_check(const coll_request *r)
{
    return r->comm ? check_all(r) : check_arguments(r);
}

coll_status request_start(coll_request *r)
{
    coll_status status = is_like(recall(r), r) ? COLL_OK : look_up(r);
    if (status == COLL_OK)
        status = fill(r);
    if (status < 0)
        return status;
    if (r->parts)
        r->fingerprint ^= group_lengths(r);
    r->started = r->timed = false;
    r->early = COLL_OK;
    r->active = true;
    request_enqueue(r);
    return COLL_OK;
}

/* Every collective call: `here` says which. */
static coll_status run(coll_request *here, coll_request **request)
{
    coll_comm *c = here->comm;
    if (!c)
        return group_noted(check_arguments(here));
    coll_status status = comm_enter(c, kind_names[here->kind]);
    if (status < 0)
        return group_noted(status);
    status = request_run(here, request);
    comm_leave(c);
    return status < 0 ? group_noted(status) : status;
}

coll_status coll_allreduce(const void *send, void *recv, size_t count,
                           coll_dtype dtype, coll_op op, coll_comm *comm,
                           coll_request **request)
{
    coll_request r =
        request_ask(ALLREDUCE, send, recv, count, dtype, op, 0, comm);
    return run(&r, request);
}

coll_status coll_reduce(const void *send, void *recv, size_t count,
                        coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                        coll_request **request)
{
    coll_request r =
        request_ask(REDUCE, send, recv, count, dtype, op, root, comm);
    return run(&r, request);
}

coll_status coll_broadcast(const void *send, void *recv, size_t count,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request)
{
    coll_request r =
        request_ask(BROADCAST, send, recv, count, dtype, COLL_SUM, root, comm);
    return run(&r, request);
}

coll_status coll_reduce_scatter(const void *send, void *recv, size_t recvcount,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request)
{
    coll_request r =
        request_ask(REDUCE_SCATTER, send, recv, recvcount, dtype, op, 0, comm);
    return run(&r, request);
}

coll_status coll_allgather(const void *send, void *recv, size_t sendcount,
                           coll_dtype dtype, coll_comm *comm,
                           coll_request **request)
{
    coll_request r =
        request_ask(ALLGATHER, send, recv, sendcount, dtype, COLL_SUM, 0, comm);
    return run(&r, request);
}

coll_status coll_gather(const void *send, void *recv, size_t sendcount,
                        coll_dtype dtype, int root, coll_comm *comm,
                        coll_request **request)
{
    coll_request r =
        request_ask(GATHER, send, recv, sendcount, dtype, COLL_SUM, root, comm);
    return run(&r, request);
}

coll_status coll_scatter(const void *send, void *recv, size_t recvcount,
                         coll_dtype dtype, int root, coll_comm *comm,
                         coll_request **request)
{
    coll_request r = request_ask(SCATTER, send, recv, recvcount, dtype,
                                 COLL_SUM, root, comm);
    return run(&r, request);
}

coll_status coll_alltoall(const void *send, void *recv, size_t count,
                          coll_dtype dtype, coll_comm *comm,
                          coll_request **request)
{
    coll_request r =
        request_ask(ALLTOALL, send, recv, count, dtype, COLL_SUM, 0, comm);
    return run(&r, request);
}

coll_status coll_barrier(coll_comm *comm, coll_request **request)
{
    coll_request r =
        request_ask(BARRIER, NULL, NULL, 0, COLL_U8, COLL_SUM, 0, comm);
    return run(&r, request);
}

static coll_status set_algorithm(coll_comm *comm, const char *rules)
{
    if (comm->first)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_set_algorithm: requests are outstanding; wait "
                    "for them first");
    const coll_status status =
        config_rules(comm, rules, "coll_comm_set_algorithm");
    if (status == COLL_OK) {
        memset(comm->recent, 0, sizeof(comm->recent));
        comm->last.candidate = -1;
    }
    return status;
}

coll_status coll_comm_set_algorithm(coll_comm *comm, const char *rules)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_set_algorithm: the communicator is NULL");
    coll_status status = comm_enter(comm, "comm_set_algorithm");
    if (status < 0)
        return status;
    status = set_algorithm(comm, rules);
    comm_leave(comm);
    return status;
}
