/* SPDX-License-Identifier: MIT */
/* How each collective is called. */
#include "collective.h"

static coll_status sendrecv(const struct shape *s, const void *send, void *recv,
                            size_t count, coll_comm *comm,
                            coll_request *requests[SHAPE_REQUESTS])
{
    const int next = s->rank + 1 < s->nranks ? s->rank + 1 : 0;
    coll_group_start(); /* the end tells what fails in between */
    coll_send(send, count, s->dtype, next, 0, comm, requests);
    coll_recv(recv, count, s->dtype, shape_source(s), 0, comm, NULL,
              requests ? requests + 1 : NULL);
    return coll_group_end();
}

static coll_status pingpong(const struct shape *s, const void *send, void *recv,
                            size_t count, coll_comm *comm)
{
    const int peer = shape_source(s);
    coll_status status = COLL_OK;
    if (peer < 0)
        return COLL_OK;
    if (s->rank == 0)
        status = coll_send(send, count, s->dtype, peer, 0, comm, NULL);
    if (status == COLL_OK)
        status = coll_recv(recv, count, s->dtype, peer, 0, comm, NULL, NULL);
    if (status == COLL_OK && s->rank > 0)
        status = coll_send(send, count, s->dtype, peer, 0, comm, NULL);
    return status;
}

/* Parts lie one after another. */
static coll_status call_v(const struct shape *s, const void *send, void *recv,
                          coll_comm *comm, coll_request **request)
{
    const size_t *const parts = s->lengths, mine = parts[s->rank];
    switch (s->collective) {
    case REDUCE_SCATTER_V:
        return coll_reduce_scatter_v(send, recv, parts, s->dtype, s->op, comm,
                                     request);
    case ALLGATHER_V:
        return coll_allgather_v(send, recv, parts, NULL, s->dtype, comm,
                                request);
    case GATHER_V:
        return coll_gather_v(send, mine, recv, parts, NULL, s->dtype, s->root,
                             comm, request);
    case SCATTER_V:
        return coll_scatter_v(send, parts, NULL, recv, mine, s->dtype, s->root,
                              comm, request);
    default:
        return coll_alltoall_v(send, parts, NULL, recv, parts, NULL, s->dtype,
                               comm, request);
    }
}

coll_status shape_call(const struct shape *s, const void *send, void *recv,
                       size_t count, coll_comm *comm,
                       coll_request *requests[SHAPE_REQUESTS])
{
    coll_request **const request = requests;
    if (s->collective != collective_even(s->collective))
        return call_v(s, send, recv, comm, request);
    switch (s->collective) {
    case REDUCE:
        return coll_reduce(send, recv, count, s->dtype, s->op, s->root, comm,
                           request);
    case BROADCAST:
        return coll_broadcast(send, recv, count, s->dtype, s->root, comm,
                              request);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(send, recv, count, s->dtype, s->op, comm,
                                   request);
    case ALLGATHER:
        return coll_allgather(send, recv, count, s->dtype, comm, request);
    case GATHER:
        return coll_gather(send, recv, count, s->dtype, s->root, comm, request);
    case SCATTER:
        return coll_scatter(send, recv, count, s->dtype, s->root, comm,
                            request);
    case ALLTOALL:
        return coll_alltoall(send, recv, count, s->dtype, comm, request);
    case SENDRECV:
        return sendrecv(s, send, recv, count, comm, requests);
    case PINGPONG:
        return pingpong(s, send, recv, count, comm);
    case BARRIER:
        return coll_barrier(comm, request);
    default:
        return coll_allreduce(send, recv, count, s->dtype, s->op, comm,
                              request);
    }
}
