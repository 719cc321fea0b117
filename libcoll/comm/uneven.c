/* SPDX-License-Identifier: MIT */
/* The calls: what they say, put into one form. */
#include "comm/uneven.h"

#include <stdlib.h>

#include "base/log.h"
#include "comm/group.h"
#include "comm/owner.h"
#include "comm/request.h"

const char *uneven_name(enum coll_kind kind)
{
    static const char *const names[NKINDS] = {
        [REDUCE_SCATTER] = "reduce_scatter_v",
        [ALLGATHER] = "allgather_v",
        [GATHER] = "gather_v",
        [SCATTER] = "scatter_v",
        [ALLTOALL] = "alltoall_v",
    };
    return names[kind];
}

static coll_status wrong(const char *name, const char *what)
{
    return fail(COLL_ERR_INVALID, "comm", "coll_%s: %s", name, what);
}

/* Of a vector: either it has a part for each rank, or it is this rank's. */
struct side {
    bool all;
    const char *name; /* of counts, for sentences */
    const size_t *counts, *displs;
    size_t count; /* unless all */
};

#define ALL_OF(NAME, DISPLS)                                                   \
    {                                                                          \
        .all = true, .name = #NAME, .counts = NAME, .displs = DISPLS           \
    }
#define OWN(COUNT)                                                             \
    {                                                                          \
        .count = COUNT                                                         \
    }

/* Room for the numbers of a call. */
static struct uneven *make(coll_comm *c, bool blocks)
{
    const size_t numbers = 4 * (size_t)c->nranks + 2;
    struct uneven *u = blocks ? c->uneven : NULL;
    if (!u)
        u = malloc(sizeof(*u) + numbers * sizeof(u->numbers[0]));
    if (blocks)
        c->uneven = u;
    return u;
}

/* false: together they are more than a size_t holds. Displacements are kept
 * unless they say what holds without them. *longest grows to that of a part. */
static bool set(struct exec_chunks *chunks, const struct side *s,
                size_t *numbers, int n, int me, size_t *longest)
{
    size_t *const before = numbers, *const at = numbers + n + 1;
    bool apart = false;
    before[0] = 0;
    for (int r = 0; r < n; r++) {
        const size_t count = s->all ? s->counts[r] : r == me ? s->count : 0;
        if (count > SIZE_MAX - before[r])
            return false;
        before[r + 1] = before[r] + count;
        if (count > *longest)
            *longest = count;
        if (s->displs) {
            at[r] = s->displs[r];
            apart |= count && at[r] != before[r];
        }
    }
    *chunks = (struct exec_chunks){before, apart ? at : NULL};
    return true;
}

/* Never 0, not even of lengths that are all 0: that stands for an even call. */
static uint32_t hash(const size_t *counts, int n)
{
    uint64_t h = 1;
    for (int r = 0; r < n; r++)
        h = request_mix(h, counts[r]);
    return (uint32_t)(h * 0xbf58476d1ce4e5b9ull >> 32) | 1;
}

static coll_status fill(coll_request *r, struct uneven *u,
                        const struct side sides[2])
{
    const int n = r->comm->nranks, me = r->comm->rank;
    const bool known = uneven_is_known(r->kind);
    u->all = u->longest = 0;
    for (int i = 0; i < 2; i++) {
        struct exec_chunks *chunks = &u->chunks[i];
        if (!set(chunks, &sides[i], u->numbers + i * (2 * n + 1), n, me,
                 &u->longest))
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_%s: %s add up to more than an address space "
                        "holds",
                        uneven_name(r->kind), sides[i].name);
        if (chunks->before[n] > u->all)
            u->all = chunks->before[n];
    }
    u->mine = uneven_part(&u->chunks[1], me);
    u->hash = known ? hash(sides[sides[1].all].counts, n) : 1;
    r->uneven = u;
    r->count = known ? u->all : 0; /* by which to choose */
    return COLL_OK;
}

static coll_status run_inside(coll_request *r, const struct side sides[2],
                              coll_request **request)
{
    const bool keeps = request || group_open();
    struct uneven *u = make(r->comm, !keeps);
    if (!u)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d lengths",
                    r->comm->nranks);
    coll_status status = fill(r, u, sides);
    if (status == COLL_OK)
        status =
            r->persistent ? request_keep(r, request) : request_run(r, request);
    if (status < 0 && keeps)
        free(u);
    return status;
}

/* r: all but how uneven it is. */
static coll_status enter(coll_request *r, const struct side sides[2],
                         coll_request **request)
{
    const char *name = uneven_name(r->kind);
    if (r->persistent && !request)
        return request_not_given(name);
    if (!r->comm)
        return wrong(name, "the communicator is NULL");
    for (int i = 0; i < 2; i++)
        if (sides[i].all && !sides[i].counts)
            return fail(COLL_ERR_INVALID, "comm", "coll_%s: %s is NULL", name,
                        sides[i].name);
    coll_status status = comm_enter(r->comm, name);
    if (status < 0)
        return status;
    status = run_inside(r, sides, request);
    comm_leave(r->comm);
    return status;
}

/* Runs the call, or keeps it if it is persistent. */
static coll_status run(coll_request *r, const struct side sides[2],
                       coll_request **request)
{
    const coll_status status = enter(r, sides, request);
    return status < 0 && !r->persistent ? group_noted(status) : status;
}

static inline coll_request ask(enum coll_kind kind, bool persistent,
                               const void *in, void *out, coll_dtype dtype,
                               coll_op op, int root, coll_comm *comm)
{
    coll_request r = request_ask(kind, in, out, 0, dtype, op, root, comm);
    r.persistent = persistent;
    return r;
}

static size_t own_count(const coll_comm *c, const size_t *counts)
{
    return c && counts ? counts[c->rank] : 0;
}

static coll_status allgather(bool persistent, const void *send, void *recv,
                             const size_t *recvcounts, const size_t *displs,
                             coll_dtype dtype, coll_comm *comm,
                             coll_request **request)
{
    coll_request r =
        ask(ALLGATHER, persistent, send, recv, dtype, COLL_SUM, 0, comm);
    const struct side sides[] = {OWN(own_count(comm, recvcounts)),
                                 ALL_OF(recvcounts, displs)};
    return run(&r, sides, request);
}

static coll_status reduce_scatter(bool persistent, const void *send, void *recv,
                                  const size_t *recvcounts, coll_dtype dtype,
                                  coll_op op, coll_comm *comm,
                                  coll_request **request)
{
    coll_request r =
        ask(REDUCE_SCATTER, persistent, send, recv, dtype, op, 0, comm);
    const struct side sides[] = {ALL_OF(recvcounts, NULL),
                                 OWN(own_count(comm, recvcounts))};
    return run(&r, sides, request);
}

static coll_status gather(bool persistent, const void *send, size_t sendcount,
                          void *recv, const size_t *recvcounts,
                          const size_t *displs, coll_dtype dtype, int root,
                          coll_comm *comm, coll_request **request)
{
    coll_request r =
        ask(GATHER, persistent, send, recv, dtype, COLL_SUM, root, comm);
    const bool is_root = comm && comm->rank == root;
    const struct side to_root[] = {OWN(sendcount), OWN(0)};
    const struct side at_root[] = {OWN(sendcount), ALL_OF(recvcounts, displs)};
    return run(&r, is_root ? at_root : to_root, request);
}

static coll_status scatter(bool persistent, const void *send,
                           const size_t *sendcounts, const size_t *displs,
                           void *recv, size_t recvcount, coll_dtype dtype,
                           int root, coll_comm *comm, coll_request **request)
{
    coll_request r =
        ask(SCATTER, persistent, send, recv, dtype, COLL_SUM, root, comm);
    const bool is_root = comm && comm->rank == root;
    const struct side of_root[] = {OWN(0), OWN(recvcount)};
    const struct side at_root[] = {ALL_OF(sendcounts, displs), OWN(recvcount)};
    return run(&r, is_root ? at_root : of_root, request);
}

static coll_status alltoall(bool persistent, const void *send,
                            const size_t *sendcounts, const size_t *senddispls,
                            void *recv, const size_t *recvcounts,
                            const size_t *recvdispls, coll_dtype dtype,
                            coll_comm *comm, coll_request **request)
{
    coll_request r =
        ask(ALLTOALL, persistent, send, recv, dtype, COLL_SUM, 0, comm);
    const struct side sides[] = {ALL_OF(sendcounts, senddispls),
                                 ALL_OF(recvcounts, recvdispls)};
    return run(&r, sides, request);
}

coll_status coll_allgather_v(const void *send, void *recv,
                             const size_t *recvcounts, const size_t *displs,
                             coll_dtype dtype, coll_comm *comm,
                             coll_request **request)
{
    return allgather(false, send, recv, recvcounts, displs, dtype, comm,
                     request);
}

coll_status coll_reduce_scatter_v(const void *send, void *recv,
                                  const size_t *recvcounts, coll_dtype dtype,
                                  coll_op op, coll_comm *comm,
                                  coll_request **request)
{
    return reduce_scatter(false, send, recv, recvcounts, dtype, op, comm,
                          request);
}

coll_status coll_gather_v(const void *send, size_t sendcount, void *recv,
                          const size_t *recvcounts, const size_t *displs,
                          coll_dtype dtype, int root, coll_comm *comm,
                          coll_request **request)
{
    return gather(false, send, sendcount, recv, recvcounts, displs, dtype, root,
                  comm, request);
}

coll_status coll_scatter_v(const void *send, const size_t *sendcounts,
                           const size_t *displs, void *recv, size_t recvcount,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request)
{
    return scatter(false, send, sendcounts, displs, recv, recvcount, dtype,
                   root, comm, request);
}

coll_status coll_alltoall_v(const void *send, const size_t *sendcounts,
                            const size_t *senddispls, void *recv,
                            const size_t *recvcounts, const size_t *recvdispls,
                            coll_dtype dtype, coll_comm *comm,
                            coll_request **request)
{
    return alltoall(false, send, sendcounts, senddispls, recv, recvcounts,
                    recvdispls, dtype, comm, request);
}

coll_status coll_allgather_v_init(const void *send, void *recv,
                                  const size_t *recvcounts,
                                  const size_t *displs, coll_dtype dtype,
                                  coll_comm *comm, coll_request **request)
{
    return allgather(true, send, recv, recvcounts, displs, dtype, comm,
                     request);
}

coll_status coll_reduce_scatter_v_init(const void *send, void *recv,
                                       const size_t *recvcounts,
                                       coll_dtype dtype, coll_op op,
                                       coll_comm *comm, coll_request **request)
{
    return reduce_scatter(true, send, recv, recvcounts, dtype, op, comm,
                          request);
}

coll_status coll_gather_v_init(const void *send, size_t sendcount, void *recv,
                               const size_t *recvcounts, const size_t *displs,
                               coll_dtype dtype, int root, coll_comm *comm,
                               coll_request **request)
{
    return gather(true, send, sendcount, recv, recvcounts, displs, dtype, root,
                  comm, request);
}

coll_status coll_scatter_v_init(const void *send, const size_t *sendcounts,
                                const size_t *displs, void *recv,
                                size_t recvcount, coll_dtype dtype, int root,
                                coll_comm *comm, coll_request **request)
{
    return scatter(true, send, sendcounts, displs, recv, recvcount, dtype, root,
                   comm, request);
}

coll_status coll_alltoall_v_init(const void *send, const size_t *sendcounts,
                                 const size_t *senddispls, void *recv,
                                 const size_t *recvcounts,
                                 const size_t *recvdispls, coll_dtype dtype,
                                 coll_comm *comm, coll_request **request)
{
    return alltoall(true, send, sendcounts, senddispls, recv, recvcounts,
                    recvdispls, dtype, comm, request);
}
