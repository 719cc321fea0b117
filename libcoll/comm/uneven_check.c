/* SPDX-License-Identifier: MIT */
/* What may be wrong with a v-call. */
#include "base/log.h"
#include "comm/request.h"

static coll_status wrong(const char *name, const char *what)
{
    return fail(COLL_ERR_INVALID, "comm", "coll_%s: %s", name, what);
}

/* Bytes of a vector that are used: from the first to the last. */
struct span {
    uintptr_t from, to;
};

static struct span span_of(const void *vector, const struct exec_chunks *chunks,
                           int first, int end, size_t elem)
{
    struct span s = {UINTPTR_MAX, 0};
    if (!chunks->at) /* one after another */
        return (struct span){
            (uintptr_t)vector + chunks->before[first] * elem,
            (uintptr_t)vector + chunks->before[end] * elem,
        };
    for (int p = first; p < end; p++) {
        const uintptr_t from =
            (uintptr_t)vector + uneven_place(chunks, p) * elem;
        const uintptr_t to = from + uneven_part(chunks, p) * elem;
        if (to == from)
            continue;
        s.from = from < s.from ? from : s.from;
        s.to = to > s.to ? to : s.to;
    }
    return s;
}

static bool overlap(struct span a, struct span b)
{
    return a.from < b.to && b.from < a.to && a.from < a.to && b.from < b.to;
}

static coll_status check_overlap(const coll_request *r)
{
    static const char *const unless[NKINDS] = {
        [REDUCE_SCATTER] = "recv being where this rank's part of send begins",
        [ALLGATHER] = "send being recv + displs[rank]",
        [GATHER] = "send being recv + displs[root]",
        [SCATTER] = "recv being send + displs[root]",
        [ALLTOALL] = "being equal",
    };
    const size_t elem = coll_dtype_bytes(r->dtype);
    const struct exec_chunks *c = r->uneven->chunks;
    const int n = r->comm->nranks, me = r->comm->rank;
    const bool pairs = r->kind == ALLTOALL;
    const struct span in = span_of(r->in, &c[0], 0, n, elem);
    const struct span out = span_of(r->out, &c[1], 0, n, elem);
    if (!overlap(in, out)
        || (pairs ? r->in == r->out
                  : (uintptr_t)r->in + uneven_place(&c[0], me) * elem
                        == (uintptr_t)r->out + uneven_place(&c[1], me) * elem))
        return COLL_OK;
    /* One of the two is but a part, which may lie in a gap of the other. */
    const bool gathers = r->kind == ALLGATHER || r->kind == GATHER;
    bool wrongly = pairs;
    for (int p = 0; p < n && !wrongly; p++)
        wrongly = gathers ? overlap(in, span_of(r->out, &c[1], p, p + 1, elem))
                          : overlap(out, span_of(r->in, &c[0], p, p + 1, elem));
    return wrongly ? fail(COLL_ERR_INVALID, "comm",
                          "coll_%s: send and recv overlap without %s",
                          uneven_name(r->kind), unless[r->kind])
                   : COLL_OK;
}

static coll_status check_places(const coll_request *r, int side, size_t elem)
{
    const struct exec_chunks *chunks = &r->uneven->chunks[side];
    const int n = r->comm->nranks;
    if (request_is_too_long(chunks->before[n], elem))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: %zu elements of %zu bytes are more than an "
                    "address space holds",
                    uneven_name(r->kind), chunks->before[n], elem);
    for (int i = 0; i < n && chunks->at; i++) {
        const size_t part = uneven_part(chunks, i);
        const size_t end = chunks->at[i] + part;
        if (part && (end < part || request_is_too_long(end, elem)))
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_%s: displs[%d] is %zu, which is more than an "
                        "address space holds",
                        uneven_name(r->kind), i, chunks->at[i]);
    }
    return COLL_OK;
}

coll_status uneven_check(const coll_request *r)
{
    const char *name = uneven_name(r->kind);
    const struct exec_chunks *c = r->uneven->chunks;
    const int n = r->comm->nranks, me = r->comm->rank;
    const size_t elem = coll_dtype_bytes(r->dtype);
    const bool rooted = kind_has_root(r->kind);
    coll_status status = check_places(r, 0, elem);
    if (status == COLL_OK)
        status = check_places(r, 1, elem);
    if (status < 0)
        return status;
    if (!r->in && c[0].before[n])
        return wrong(name, "send is NULL though it has elements");
    if (!r->out && c[1].before[n])
        return wrong(name, "recv is NULL though it has elements");
    if ((!rooted || r->root == me)
        && uneven_part(&c[0], me) != uneven_part(&c[1], me))
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: this rank sends itself %zu elements and receives "
                    "%zu",
                    name, uneven_part(&c[0], me), uneven_part(&c[1], me));
    return check_overlap(r);
}
