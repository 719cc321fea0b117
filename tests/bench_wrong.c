/* SPDX-License-Identifier: MIT */
/* Linked into coll_bench in front of the library: the same collectives, but in
 * what one rank gets or sends the last element is wrong. Vectors of a few
 * elements are left alone, as the program itself sends such. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "coll/coll.h"

enum { FEW = 64, SEND_MS = 5 };

/* The library's function of this name, into *function. */
static void find(const char *name, void *function)
{
    void *const is = dlsym(RTLD_NEXT, name);
    if (!is)
        abort();
    memcpy(function, &is, sizeof is);
}

static coll_status spoil(coll_status status, void *recv, size_t count,
                         coll_dtype dtype, const coll_comm *comm, int rank)
{
    if (status == COLL_OK && count > FEW && coll_comm_user_rank(comm) == rank)
        ((unsigned char *)recv)[count * coll_dtype_bytes(dtype) - 1] ^= 1;
    return status;
}

coll_status coll_allreduce(const void *send, void *recv, size_t count,
                           coll_dtype dtype, coll_op op, coll_comm *comm,
                           coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, coll_op,
                        coll_comm *, coll_request **);
    find("coll_allreduce", &real);
    /* The times of the ranks, which the program compares, are no f32. */
    return spoil(real(send, recv, count, dtype, op, comm, request), recv,
                 dtype == COLL_F32 ? count : 0, dtype, comm, 1);
}

coll_status coll_reduce(const void *send, void *recv, size_t count,
                        coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                        coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, coll_op, int,
                        coll_comm *, coll_request **);
    find("coll_reduce", &real);
    return spoil(real(send, recv, count, dtype, op, root, comm, request), recv,
                 count, dtype, comm, root);
}

coll_status coll_broadcast(const void *send, void *recv, size_t count,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, int,
                        coll_comm *, coll_request **);
    find("coll_broadcast", &real);
    return spoil(real(send, recv, count, dtype, root, comm, request), recv,
                 count, dtype, comm, 1);
}

coll_status coll_reduce_scatter(const void *send, void *recv, size_t recvcount,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, coll_op,
                        coll_comm *, coll_request **);
    find("coll_reduce_scatter", &real);
    return spoil(real(send, recv, recvcount, dtype, op, comm, request), recv,
                 recvcount, dtype, comm, 2);
}

coll_status coll_allgather(const void *send, void *recv, size_t sendcount,
                           coll_dtype dtype, coll_comm *comm,
                           coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, coll_comm *,
                        coll_request **);
    find("coll_allgather", &real);
    return spoil(real(send, recv, sendcount, dtype, comm, request), recv,
                 sendcount, dtype, comm, 2);
}

coll_status coll_gather(const void *send, void *recv, size_t sendcount,
                        coll_dtype dtype, int root, coll_comm *comm,
                        coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, int,
                        coll_comm *, coll_request **);
    find("coll_gather", &real);
    return spoil(real(send, recv, sendcount, dtype, root, comm, request), recv,
                 sendcount, dtype, comm, root);
}

coll_status coll_scatter(const void *send, void *recv, size_t recvcount,
                         coll_dtype dtype, int root, coll_comm *comm,
                         coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, int,
                        coll_comm *, coll_request **);
    find("coll_scatter", &real);
    return spoil(real(send, recv, recvcount, dtype, root, comm, request), recv,
                 recvcount, dtype, comm, 1);
}

coll_status coll_alltoall(const void *send, void *recv, size_t count,
                          coll_dtype dtype, coll_comm *comm,
                          coll_request **request)
{
    coll_status (*real)(const void *, void *, size_t, coll_dtype, coll_comm *,
                        coll_request **);
    find("coll_alltoall", &real);
    return spoil(real(send, recv, count, dtype, comm, request), recv, count,
                 dtype, comm, 2);
}

/* Of parts one after another. */
static size_t sum(const size_t *counts, const coll_comm *comm)
{
    size_t all = 0;
    for (int r = 0; r < coll_comm_count(comm); r++)
        all += counts[r];
    return all;
}

coll_status coll_reduce_scatter_v(const void *send, void *recv,
                                  const size_t *recvcounts, coll_dtype dtype,
                                  coll_op op, coll_comm *comm,
                                  coll_request **request)
{
    coll_status (*real)(const void *, void *, const size_t *, coll_dtype,
                        coll_op, coll_comm *, coll_request **);
    find("coll_reduce_scatter_v", &real);
    return spoil(real(send, recv, recvcounts, dtype, op, comm, request), recv,
                 recvcounts[coll_comm_user_rank(comm)], dtype, comm, 2);
}

coll_status coll_allgather_v(const void *send, void *recv,
                             const size_t *recvcounts, const size_t *displs,
                             coll_dtype dtype, coll_comm *comm,
                             coll_request **request)
{
    coll_status (*real)(const void *, void *, const size_t *, const size_t *,
                        coll_dtype, coll_comm *, coll_request **);
    find("coll_allgather_v", &real);
    return spoil(real(send, recv, recvcounts, displs, dtype, comm, request),
                 recv, sum(recvcounts, comm), dtype, comm, 2);
}

coll_status coll_gather_v(const void *send, size_t sendcount, void *recv,
                          const size_t *recvcounts, const size_t *displs,
                          coll_dtype dtype, int root, coll_comm *comm,
                          coll_request **request)
{
    coll_status (*real)(const void *, size_t, void *, const size_t *,
                        const size_t *, coll_dtype, int, coll_comm *,
                        coll_request **);
    find("coll_gather_v", &real);
    return spoil(real(send, sendcount, recv, recvcounts, displs, dtype, root,
                      comm, request),
                 recv, sum(recvcounts, comm), dtype, comm, root);
}

coll_status coll_scatter_v(const void *send, const size_t *sendcounts,
                           const size_t *displs, void *recv, size_t recvcount,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request)
{
    coll_status (*real)(const void *, const size_t *, const size_t *, void *,
                        size_t, coll_dtype, int, coll_comm *, coll_request **);
    find("coll_scatter_v", &real);
    return spoil(real(send, sendcounts, displs, recv, recvcount, dtype, root,
                      comm, request),
                 recv, recvcount, dtype, comm, 1);
}

coll_status coll_alltoall_v(const void *send, const size_t *sendcounts,
                            const size_t *senddispls, void *recv,
                            const size_t *recvcounts, const size_t *recvdispls,
                            coll_dtype dtype, coll_comm *comm,
                            coll_request **request)
{
    coll_status (*real)(const void *, const size_t *, const size_t *, void *,
                        const size_t *, const size_t *, coll_dtype, coll_comm *,
                        coll_request **);
    find("coll_alltoall_v", &real);
    return spoil(real(send, sendcounts, senddispls, recv, recvcounts,
                      recvdispls, dtype, comm, request),
                 recv, sum(recvcounts, comm), dtype, comm, 2);
}

/* A receive may finish in the end of a group: so what is sent is wrong. It also
 * takes SEND_MS, for the test of what a ping-pong counts. */
coll_status coll_send(const void *send, size_t count, coll_dtype dtype,
                      int peer, int tag, coll_comm *comm,
                      coll_request **request)
{
    coll_status (*real)(const void *, size_t, coll_dtype, int, int, coll_comm *,
                        coll_request **);
    find("coll_send", &real);
    if (count > FEW)
        nanosleep(&(struct timespec){.tv_nsec = SEND_MS * 1000000}, NULL);
    spoil(COLL_OK, (void *)(uintptr_t)send, count, dtype, comm, 0);
    return real(send, count, dtype, peer, tag, comm, request);
}
