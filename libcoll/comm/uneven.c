/* SPDX-License-Identifier: MIT */
#include "comm/uneven.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/owner.h"
#include "comm/request.h"

const char *uneven_name(enum coll_kind kind)
{
    return kind == ALLGATHER ? "allgather_v" : "reduce_scatter_v";
}

/* --- what the caller says ------------------------------------------------- */

static size_t part(const struct uneven *u, int rank)
{
    return u->before[rank + 1] - u->before[rank];
}

/* Where a rank's part begins in the result of an allgather, in elements. */
static size_t place(const struct uneven *u, int rank)
{
    return u->displs ? u->displs[rank] : u->before[rank];
}

/* Room for the numbers of a call. */
static struct uneven *make(coll_comm *c, bool blocks)
{
    const size_t numbers = 2 * (size_t)c->nranks + 1;
    struct uneven *u = blocks ? c->uneven : NULL;
    if (!u)
        u = malloc(sizeof(*u) + numbers * sizeof(u->numbers[0]));
    if (blocks)
        c->uneven = u;
    return u;
}

/* false: together they are more than a size_t holds. */
static bool add_up(struct uneven *u, int n, int me, const size_t *counts)
{
    size_t *const before = u->numbers;
    uint64_t h = 0;
    before[0] = u->longest = 0;
    for (int r = 0; r < n; r++) {
        if (counts[r] > SIZE_MAX - before[r])
            return false;
        before[r + 1] = before[r] + counts[r];
        u->longest = counts[r] > u->longest ? counts[r] : u->longest;
        h = (h ^ counts[r]) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 29;
    }
    u->hash = (uint32_t)(h * 0xbf58476d1ce4e5b9ull >> 32) | 1;
    u->before = before;
    u->mine = counts[me];
    return true;
}

/* Kept unless they say what holds without them. */
static void lay_apart(struct uneven *u, int n, const size_t *displs)
{
    size_t *const kept = u->numbers + n + 1;
    bool apart = false;
    for (int r = 0; r < n && displs; r++) {
        kept[r] = displs[r];
        apart |= part(u, r) && kept[r] != u->before[r];
    }
    u->displs = apart ? kept : NULL;
}

static coll_status wrong(const char *name, const char *what)
{
    return fail(COLL_ERR_INVALID, "comm", "coll_%s: %s", name, what);
}

static coll_status run_inside(coll_request *r, const size_t *counts,
                              const size_t *displs, coll_request **request)
{
    coll_comm *c = r->comm;
    const char *name = uneven_name(r->kind);
    struct uneven *u = make(c, !request);
    if (!u)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d lengths",
                    c->nranks);
    coll_status status = COLL_OK;
    if (!add_up(u, c->nranks, c->rank, counts))
        status = wrong(name, "recvcounts add up to more than an address space "
                             "holds");
    if (status == COLL_OK) {
        lay_apart(u, c->nranks, displs);
        r->uneven = u;
        r->count = u->before[c->nranks];
        status = request_run(r, request);
    }
    if (status < 0 && request)
        free(u);
    return status;
}

/* r: all but how uneven it is. */
static coll_status run(coll_request *r, const size_t *counts,
                       const size_t *displs, coll_request **request)
{
    const char *name = uneven_name(r->kind);
    if (!r->comm)
        return wrong(name, "the communicator is NULL");
    if (!counts)
        return wrong(name, "recvcounts is NULL");
    coll_status status = comm_enter(r->comm, name);
    if (status < 0)
        return status;
    status = run_inside(r, counts, displs, request);
    comm_leave(r->comm);
    return status;
}

coll_status coll_allgather_v(const void *send, void *recv,
                             const size_t *recvcounts, const size_t *displs,
                             coll_dtype dtype, coll_comm *comm,
                             coll_request **request)
{
    coll_request r = {
        .comm = comm,
        .kind = ALLGATHER,
        .dtype = dtype,
        .op = COLL_SUM,
        .in = send,
        .out = recv,
        .active = true,
    };
    return run(&r, recvcounts, displs, request);
}

coll_status coll_reduce_scatter_v(const void *send, void *recv,
                                  const size_t *recvcounts, coll_dtype dtype,
                                  coll_op op, coll_comm *comm,
                                  coll_request **request)
{
    coll_request r = {
        .comm = comm,
        .kind = REDUCE_SCATTER,
        .dtype = dtype,
        .op = op,
        .in = send,
        .out = recv,
        .active = true,
    };
    return run(&r, recvcounts, NULL, request);
}

/* --- what is wrong with it ------------------------------------------------ */

static bool overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
    return a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

/* The part of a rank in the vector that has all of them. */
static uintptr_t part_address(const coll_request *r, int rank)
{
    const bool gathers = r->kind == ALLGATHER;
    const struct uneven *u = r->uneven;
    return (uintptr_t)(gathers ? r->out : r->in)
           + (gathers ? place(u, rank) : u->before[rank])
                 * coll_dtype_bytes(r->dtype);
}

static coll_status check_overlap(const coll_request *r)
{
    const size_t elem = coll_dtype_bytes(r->dtype);
    const struct uneven *u = r->uneven;
    const bool gathers = r->kind == ALLGATHER;
    const uintptr_t mine = (uintptr_t)(gathers ? r->in : r->out);
    if (mine == part_address(r, r->comm->rank))
        return COLL_OK;
    for (int i = 0; i < r->comm->nranks; i++)
        if (overlap(mine, u->mine * elem, part_address(r, i),
                    part(u, i) * elem))
            return wrong(uneven_name(r->kind),
                         gathers ? "send and recv overlap without send being "
                                   "recv + displs[rank]"
                                 : "send and recv overlap without recv being "
                                   "where this rank's part of send begins");
    return COLL_OK;
}

coll_status uneven_check(const coll_request *r)
{
    const char *name = uneven_name(r->kind);
    const struct uneven *u = r->uneven;
    const bool gathers = r->kind == ALLGATHER;
    const size_t most = SIZE_MAX / 2 / coll_dtype_bytes(r->dtype);
    if (!r->in && (gathers ? u->mine : r->count))
        return wrong(name, "send is NULL though it has elements");
    if (!r->out && (gathers ? r->count : u->mine))
        return wrong(name, "recv is NULL though it has elements");
    for (int i = 0; i < r->comm->nranks && u->displs; i++)
        if (u->displs[i] > most || part(u, i) > most - u->displs[i])
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_%s: displs[%d] is %zu, which is more than an "
                        "address space holds",
                        name, i, u->displs[i]);
    return check_overlap(r);
}

/* --- by a plan ------------------------------------------------------------ */

coll_status uneven_prepare(coll_request *r, struct exec_call *call)
{
    enum { LINE = 64 };
    coll_comm *c = r->comm;
    struct uneven *u = r->uneven;
    struct prepared *p = r->prepared;
    const bool packs = u->displs && p->plan.runs;
    const size_t before = u->before[c->rank];
    size_t scratch, result = packs ? r->count * r->elem_bytes : 0;
    u->chunks[0] = (struct exec_chunks){u->before, NULL};
    u->chunks[1] = (struct exec_chunks){u->before, packs ? NULL : u->displs};
    coll_status status =
        exec_lay_out(&p->exec, &u->chunks[0], r->elem_bytes, &scratch);
    if (status < 0)
        return fail(status, "comm", "no memory for the chunks of a plan");
    scratch = (scratch + LINE - 1) / LINE * LINE;
    status = comm_reserve(c, scratch + result);
    call->tmp = c->tmp;
    call->chunks = u->chunks;
    call->in_first = r->kind == ALLGATHER ? before : 0;
    call->out_first = r->kind == REDUCE_SCATTER ? before : 0;
    u->packed = packs && status == COLL_OK ? (char *)c->tmp + scratch : NULL;
    if (u->packed)
        call->out = (char *)c->tmp + scratch;
    return status;
}

void uneven_finish(const coll_request *r)
{
    coll_comm *c = r->comm;
    const struct uneven *u = r->uneven;
    const size_t elem = r->elem_bytes;
    if (!u->packed)
        return;
    for (int i = 0; i < c->nranks; i++)
        if (part(u, i))
            memmove((char *)r->out + place(u, i) * elem,
                    u->packed + u->before[i] * elem, part(u, i) * elem);
    c->tally[r->kind].bytes_read += r->count * elem;
    c->tally[r->kind].bytes_written += r->count * elem;
}
