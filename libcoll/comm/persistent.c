/* SPDX-License-Identifier: MIT */
/* Persistent requests: checked once, started often. */
#include <stdlib.h>

#include "base/log.h"
#include "comm/group.h"
#include "comm/owner.h"
#include "comm/request.h"

coll_status request_not_given(const char *name)
{
    return fail(COLL_ERR_INVALID, "comm", "coll_%s_init: request is NULL",
                name);
}

coll_status request_keep(const coll_request *here, coll_request **request)
{
    const coll_status status =
        here->p2p.way == NOT_P2P ? request_check(here) : COLL_OK;
    if (status < 0)
        return status;
    coll_request *r = malloc(sizeof(*r));
    if (!r)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
    request_copy(r, here);
    r->persistent = true;
    r->active = false;
    *request = r;
    return COLL_OK;
}

static coll_status keep(coll_request here, coll_request **request)
{
    if (!request)
        return request_not_given(kind_names[here.kind]);
    if (!here.comm)
        return request_check(&here);
    coll_status status = comm_enter(here.comm, kind_names[here.kind]);
    if (status < 0)
        return status;
    status = request_keep(&here, request);
    comm_leave(here.comm);
    return status;
}

coll_status coll_allreduce_init(const void *send, void *recv, size_t count,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request)
{
    return keep((coll_request){.kind = ALLREDUCE,
                               .in = send,
                               .out = recv,
                               .count = count,
                               .dtype = dtype,
                               .op = op,
                               .comm = comm},
                request);
}

coll_status coll_reduce_init(const void *send, void *recv, size_t count,
                             coll_dtype dtype, coll_op op, int root,
                             coll_comm *comm, coll_request **request)
{
    return keep((coll_request){.kind = REDUCE,
                               .in = send,
                               .out = recv,
                               .count = count,
                               .dtype = dtype,
                               .op = op,
                               .root = root,
                               .comm = comm},
                request);
}

coll_status coll_broadcast_init(const void *send, void *recv, size_t count,
                                coll_dtype dtype, int root, coll_comm *comm,
                                coll_request **request)
{
    return keep((coll_request){.kind = BROADCAST,
                               .in = send,
                               .out = recv,
                               .count = count,
                               .dtype = dtype,
                               .root = root,
                               .comm = comm},
                request);
}

coll_status coll_reduce_scatter_init(const void *send, void *recv,
                                     size_t recvcount, coll_dtype dtype,
                                     coll_op op, coll_comm *comm,
                                     coll_request **request)
{
    return keep((coll_request){.kind = REDUCE_SCATTER,
                               .in = send,
                               .out = recv,
                               .count = recvcount,
                               .dtype = dtype,
                               .op = op,
                               .comm = comm},
                request);
}

coll_status coll_allgather_init(const void *send, void *recv, size_t sendcount,
                                coll_dtype dtype, coll_comm *comm,
                                coll_request **request)
{
    return keep((coll_request){.kind = ALLGATHER,
                               .in = send,
                               .out = recv,
                               .count = sendcount,
                               .dtype = dtype,
                               .comm = comm},
                request);
}

coll_status coll_gather_init(const void *send, void *recv, size_t sendcount,
                             coll_dtype dtype, int root, coll_comm *comm,
                             coll_request **request)
{
    return keep((coll_request){.kind = GATHER,
                               .in = send,
                               .out = recv,
                               .count = sendcount,
                               .dtype = dtype,
                               .root = root,
                               .comm = comm},
                request);
}

coll_status coll_scatter_init(const void *send, void *recv, size_t recvcount,
                              coll_dtype dtype, int root, coll_comm *comm,
                              coll_request **request)
{
    return keep((coll_request){.kind = SCATTER,
                               .in = send,
                               .out = recv,
                               .count = recvcount,
                               .dtype = dtype,
                               .root = root,
                               .comm = comm},
                request);
}

coll_status coll_alltoall_init(const void *send, void *recv, size_t count,
                               coll_dtype dtype, coll_comm *comm,
                               coll_request **request)
{
    return keep((coll_request){.kind = ALLTOALL,
                               .in = send,
                               .out = recv,
                               .count = count,
                               .dtype = dtype,
                               .comm = comm},
                request);
}

coll_status coll_barrier_init(coll_comm *comm, coll_request **request)
{
    return keep((coll_request){.kind = BARRIER, .dtype = COLL_U8, .comm = comm},
                request);
}

static coll_status not_persistent(const char *call)
{
    return fail(COLL_ERR_INVALID, "comm",
                "coll_%s: the request is not persistent: it was started by its "
                "collective, and is ended by coll_wait() or coll_test()",
                call);
}

coll_status coll_start(coll_request *request)
{
    if (!request)
        return fail(COLL_ERR_INVALID, "comm", "coll_start: request is NULL");
    if (!request->persistent)
        return not_persistent("start");
    if (group_open())
        return group_noted(
            fail(COLL_ERR_INVALID, "comm",
                 "coll_start: persistent requests start outside of groups"));
    coll_status status = comm_enter(request->comm, "start");
    if (status < 0)
        return status;
    if (request->active)
        status = fail(COLL_ERR_INVALID, "comm",
                      "coll_start: the request is still under way; wait for it "
                      "first");
    else
        status = request->p2p.way == NOT_P2P ? request_start(request)
                                             : request_restart_p2p(request);
    comm_leave(request->comm);
    return status;
}

coll_status coll_request_free(coll_request **request)
{
    if (!request)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_request_free: request is NULL");
    if (!*request)
        return COLL_OK;
    if (!(*request)->persistent)
        return not_persistent("request_free");
    if ((*request)->active)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_request_free: the request is still under way; wait "
                    "for it first");
    free((*request)->uneven);
    free(*request);
    *request = NULL;
    return COLL_OK;
}
