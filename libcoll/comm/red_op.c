/* SPDX-License-Identifier: MIT */
#include "comm/red_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/owner.h"
#include "comm/request.h"
#include "op/handle.h"

/* The communicator's own operator of that value, or NULL. */
static const struct red_op *own(const coll_comm *c, coll_op op)
{
    const int i = op_handle_index(op);
    return c->red_op[i] && op == op_handle(c->job.job, op_is_scaled(op), i)
                   && c->red_op_is_scaled[i] == op_is_scaled(op)
               ? c->red_op[i]
               : NULL;
}

static coll_status not_own(const char *what, coll_op op)
{
    return fail(COLL_ERR_INVALID, "comm",
                "%s: op %#x is of another communicator, or was destroyed", what,
                (unsigned)op);
}

enum algo_order red_op_order(const coll_comm *c, coll_dtype dtype)
{
    return c->determinism != DETERMINISM_FULL || !op_rounds(dtype) ? ANY_ORDER
           : op_narrow(dtype)                                      ? ONE_PASS
                                                                   : IN_PAIRS;
}

static enum algo_order order_of_function(const coll_comm *c,
                                         const struct red_op *function)
{
    return c->determinism == DETERMINISM_FULL ? ONE_PASS
           : function->commutative            ? ANY_ORDER
                                              : RANK_ORDER;
}

coll_status red_op_find(const coll_comm *c, const char *what, coll_dtype dtype,
                        coll_op op, struct reduction *r)
{
    const bool handle = op_is_handle(op);
    const struct red_op *mine = handle ? own(c, op) : NULL;
    const bool scaled = mine && op_is_scaled(op);
    if (handle && !mine)
        return not_own(what, op);
    if (scaled && mine->dtype != dtype)
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: this pre_mul_sum was made for %s, not for %s", what,
                    coll_dtype_name(mine->dtype), coll_dtype_name(dtype));
    *r = (struct reduction){
        .combine = !handle  ? op_combine(dtype, op)
                   : scaled ? op_combine(dtype, COLL_SUM)
                            : &mine->combine[dtype],
        .scaled = scaled ? mine : NULL,
        .in_order = mine && !scaled ? order_of_function(c, mine)
                                    : red_op_order(c, dtype),
        .flat = c->determinism == DETERMINISM_LAYOUT,
    };
    r->flat |= r->in_order != ANY_ORDER;
    return r->combine ? COLL_OK
                      : fail(COLL_ERR_UNSUPPORTED, "comm",
                             "%s: %s is not defined on %s", what,
                             coll_op_name(op), coll_dtype_name(dtype));
}

/* --- made and destroyed --------------------------------------------------- */

static coll_status insert(coll_comm *c, struct red_op *made, bool scaled,
                          coll_op *op)
{
    int i = 0;
    while (i < OP_HANDLES && c->red_op[i])
        i++;
    if (i == OP_HANDLES)
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "a communicator has at most %d ops of its own at one time; "
                    "coll_red_op_destroy() frees one",
                    OP_HANDLES);
    c->red_op[i] = made;
    c->red_op_is_scaled[i] = scaled;
    *op = op_handle(c->job.job, scaled, i);
    return COLL_OK;
}

/* Takes what was made. call: as for comm_enter(). */
static coll_status add(coll_comm *c, struct red_op *made, bool scaled,
                       const char *call, coll_op *op)
{
    coll_status status = comm_enter(c, call);
    if (status == COLL_OK) {
        status = insert(c, made, scaled, op);
        comm_leave(c);
    }
    if (status < 0)
        free(made);
    return status;
}

static coll_status is_null(const char *what, const char *which)
{
    return fail(COLL_ERR_INVALID, "comm", "%s: %s is NULL", what, which);
}

coll_status coll_red_op_create(coll_op *op, coll_red_function *function,
                               void *context, int commutative, coll_comm *comm)
{
    static const char name[] = "coll_red_op_create";
    if (!op || !function || !comm)
        return is_null(name, !op         ? "op"
                             : !function ? "the function"
                                         : "the communicator");
    struct red_op *made = calloc(1, sizeof(*made));
    if (!made)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for an op");
    made->commutative = commutative != 0;
    for (int d = 0; d < OP_NDTYPES; d++)
        made->combine[d] = (struct combine){
            .function = function, .context = context, .dtype = (coll_dtype)d};
    return add(comm, made, false, "red_op_create", op);
}

coll_status coll_red_op_create_pre_mul_sum(coll_op *op, const void *scalar,
                                           coll_dtype dtype, coll_comm *comm)
{
    static const char name[] = "coll_red_op_create_pre_mul_sum";
    const size_t bytes = coll_dtype_bytes(dtype);
    if (!op || !scalar || !comm)
        return is_null(name, !op       ? "op"
                             : !scalar ? "the scalar"
                                       : "the communicator");
    if (!bytes)
        return fail(COLL_ERR_INVALID, "comm", "%s: %d is no coll_dtype", name,
                    (int)dtype);
    struct red_op *made = calloc(1, sizeof(*made));
    if (!made)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for an op");
    made->dtype = dtype;
    memcpy(made->scalar, scalar, bytes);
    return add(comm, made, true, "red_op_create_pre_mul_sum", op);
}

static coll_status drop(coll_comm *c, coll_op op, const char *name)
{
    if (!own(c, op))
        return not_own(name, op);
    if (c->first)
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: requests are outstanding; wait for them first", name);
    const int i = op_handle_index(op);
    free(c->red_op[i]);
    c->red_op[i] = NULL;
    memset(c->recent, 0, sizeof(c->recent)); /* some may name it */
    return COLL_OK;
}

coll_status coll_red_op_destroy(coll_op op, coll_comm *comm)
{
    static const char name[] = "coll_red_op_destroy";
    if (!comm)
        return is_null(name, "the communicator");
    if (!op_is_handle(op))
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: op %d was not made by coll_red_op_create()", name,
                    (int)op);
    coll_status status = comm_enter(comm, "red_op_destroy");
    if (status < 0)
        return status;
    status = drop(comm, op, name);
    comm_leave(comm);
    return status;
}

void red_op_free_all(coll_comm *c)
{
    for (int i = 0; i < OP_HANDLES; i++)
        free(c->red_op[i]);
    if (c->scaled)
        heap_free(c->scaled);
}

/* --- multiplied ----------------------------------------------------------- */

/* Where ranks of this host reach it. Grows in large steps, as the heap's blocks
 * are never used twice. */
static coll_status reserve(coll_comm *c, size_t bytes)
{
    if (bytes <= c->scaled_bytes)
        return COLL_OK;
    const size_t wanted =
        bytes < 2 * c->scaled_bytes ? 2 * c->scaled_bytes : bytes;
    void *scaled;
    const coll_status status = heap_alloc(&scaled, wanted);
    if (status < 0)
        return status;
    if (c->scaled)
        heap_free(c->scaled);
    c->scaled = scaled;
    c->scaled_bytes = wanted;
    return COLL_OK;
}

/* A persistent request comes here at each start. */
coll_status red_op_scale(coll_request *r)
{
    coll_comm *c = r->comm;
    const size_t count =
        r->uneven ? r->uneven->all : r->count * request_in_parts(r);
    struct tally *const t = &c->tally[r->kind];
    void *to = r->out;
    if (r->kind != ALLREDUCE) { /* out is shorter, or there is none */
        const coll_status status = reserve(c, count * r->elem_bytes);
        if (status < 0)
            return status;
        to = c->scaled;
    }
    op_scale(r->dtype, r->scaled->scalar, to, r->in, count);
    t->bytes_read += count * r->elem_bytes;
    t->bytes_written += count * r->elem_bytes;
    r->given = r->in;
    r->in = to;
    return COLL_OK;
}
