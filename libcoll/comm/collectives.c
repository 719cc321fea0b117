/* SPDX-License-Identifier: MIT */
/* The public collective calls: check arguments, select, run.
 *
 * A blocking call on a prepared shape allocates nothing and makes no system
 * call before its first empty poll.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/request.h"

static coll_status check_arguments(const void *send, const void *recv,
                                   size_t count, coll_dtype dtype, coll_op op,
                                   const coll_comm *comm)
{
    const size_t elem = coll_dtype_bytes(dtype);
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_allreduce: the communicator is NULL");
    if (!elem)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_allreduce: %d is no coll_dtype", (int)dtype);
    if (!coll_op_name(op))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_allreduce: %d is no coll_op", (int)op);
    if (count > SIZE_MAX / 2 / elem)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_allreduce: %zu elements of %zu bytes are more than "
                    "an address space holds",
                    count, elem);
    if (count && (!send || !recv))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_allreduce: %s is NULL with count %zu",
                    send ? "recv" : "send", count);
    const char *s = send, *r = recv;
    const size_t bytes = count * elem;
    if (s != r && s < r + bytes && r < s + bytes)
        return fail(
            COLL_ERR_INVALID, "comm",
            "coll_allreduce: send and recv overlap without being equal");
    return COLL_OK;
}

/* What both sides of a message must agree on, in 32 bits. */
static uint32_t fingerprint(uint32_t sequence, coll_dtype dtype, coll_op op,
                            size_t count)
{
    uint64_t h = (uint64_t)sequence << 32 ^ (uint64_t)dtype << 8 ^ (uint64_t)op;
    h = (h ^ count) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(h >> 32);
}

/* The plan of a choice, built at its first use. */
static coll_status prepare(coll_comm *c, const struct select_choice *choice,
                           struct prepared **prepared)
{
    struct prepared *p =
        &c->prepared[choice->algo * SELECT_SEGMENTS + choice->variant];
    *prepared = p;
    if (p->ready)
        return COLL_OK;
    const struct plan_shape shape = {c->rank, c->nranks, 1 << choice->variant};
    algos[choice->algo].plan(&p->plan, &shape);
    coll_status status = p->plan.status;
    if (status == COLL_OK)
        status = exec_init(&p->exec, &p->plan, c->to);
    if (status < 0) {
        plan_free(&p->plan);
        return fail(status, "comm", "no memory for a plan of %s",
                    algos[choice->algo].name);
    }
    p->ready = true;
    return COLL_OK;
}

/* Scratch grows; what requests under way use stays until none is. */
static coll_status reserve(coll_comm *c, size_t bytes)
{
    if (bytes <= c->tmp_bytes)
        return COLL_OK;
    const size_t rounded = (bytes + 4095) / 4096 * 4096;
    void *tmp = aligned_alloc(4096, rounded);
    struct retired *old = c->tmp ? malloc(sizeof(*old)) : NULL;
    if (!tmp || (c->tmp && !old)) {
        free(tmp);
        free(old);
        return fail(COLL_ERR_MEMORY, "comm",
                    "no memory for %zu bytes of scratch", rounded);
    }
    if (old) {
        *old = (struct retired){c->retired, c->tmp};
        c->retired = old;
    }
    c->tmp = tmp;
    c->tmp_bytes = rounded;
    if (!c->first)
        comm_free_retired(c);
    return COLL_OK;
}

static coll_status fill(coll_request *r, const void *send, void *recv,
                        size_t count, coll_dtype dtype, coll_op op,
                        coll_comm *c)
{
    struct select_choice choice;
    const size_t elem = coll_dtype_bytes(dtype);
    *r = (coll_request){
        .comm = c,
        .call = {.in = send,
                 .out = recv,
                 .count = count,
                 .elem_bytes = elem,
                 .reduce = op_reduce(dtype, op)},
        .dtype = dtype,
        .op = op,
        .status = COLL_IN_PROGRESS,
    };
    if (!r->call.reduce)
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "coll_allreduce: %s is not defined on %s", coll_op_name(op),
                    coll_dtype_name(dtype));
    coll_status status = comm_check(c);
    if (status < 0)
        return fail(status, "comm", "%s", c->sentence);
    status = select_algorithm(&c->select, ALLREDUCE, c->nranks, count * elem,
                              &choice);
    if (status == COLL_OK)
        status = prepare(c, &choice, &r->prepared);
    if (status == COLL_OK)
        status = reserve(c, exec_tmp_bytes(&r->prepared->plan, count, elem));
    r->call.tmp = c->tmp;
    r->call.tag = fingerprint(c->sequence, dtype, op, count);
    return status;
}

coll_status coll_allreduce(const void *send, void *recv, size_t count,
                           coll_dtype dtype, coll_op op, coll_comm *comm,
                           coll_request **request)
{
    coll_request here, *r = &here;
    coll_status status = check_arguments(send, recv, count, dtype, op, comm);
    if (status == COLL_OK)
        status = fill(&here, send, recv, count, dtype, op, comm);
    if (status < 0)
        return status;
    if (request) {
        r = malloc(sizeof(*r));
        if (!r)
            return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
        *r = here;
    }
    comm->sequence++;
    request_enqueue(r);
    if (request) {
        *request = r;
        return COLL_OK;
    }
    status = request_wait(r);
    return status < 0 ? fail(status, "comm", "%s", comm->sentence) : status;
}

coll_status coll_explain(const coll_comm *comm, size_t count, coll_dtype dtype,
                         coll_op op, coll_choice *choice)
{
    struct select_choice selected;
    if (!choice)
        return fail(COLL_ERR_INVALID, "comm", "coll_explain: choice is NULL");
    coll_status status = check_arguments("", "", 0, dtype, op, comm);
    if (status == COLL_OK)
        status = select_algorithm(&comm->select, ALLREDUCE, comm->nranks,
                                  count * coll_dtype_bytes(dtype), &selected);
    if (status == COLL_OK)
        *choice = (coll_choice){algos[selected.algo].name, selected.predicted};
    return status;
}

coll_status coll_comm_set_algorithm(coll_comm *comm, const char *rules)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_set_algorithm: the communicator is NULL");
    return select_parse(&comm->select, rules, "coll_comm_set_algorithm");
}
