/* SPDX-License-Identifier: MIT */
/* The public collective calls: check arguments, select, run.
 *
 * A blocking call on a prepared shape allocates nothing and makes no system
 * call before its first empty poll.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/nearest.h"
#include "comm/request.h"

static bool reduces(enum coll_kind kind)
{
    return kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
}

/* Into how many parts, one a rank, `in` or `out` falls. */
static size_t in_parts(const coll_request *r)
{
    return r->kind == REDUCE_SCATTER ? (size_t)r->comm->nranks : 1;
}

static size_t out_parts(const coll_request *r)
{
    return r->kind == ALLGATHER ? (size_t)r->comm->nranks : 1;
}

/* Of what one rank holds in full: S in the tables of README.md. */
static size_t whole_bytes(const coll_request *r)
{
    return r->kind == BARRIER ? 1
                              : r->count * in_parts(r) * out_parts(r)
                                    * coll_dtype_bytes(r->dtype);
}

static bool reads_in(const coll_request *r)
{
    return r->kind != BROADCAST || r->root == r->comm->rank;
}

static bool writes_out(const coll_request *r)
{
    return r->kind != REDUCE || r->root == r->comm->rank;
}

static coll_status check_overlap(const coll_request *r, size_t bytes)
{
    const uintptr_t in = (uintptr_t)r->in, out = (uintptr_t)r->out;
    const size_t mine = bytes * (size_t)r->comm->rank;
    const bool in_place = r->kind == REDUCE_SCATTER ? out == in + mine
                          : r->kind == ALLGATHER    ? in == out + mine
                                                    : in == out;
    if (in_place || !reads_in(r) || !writes_out(r)
        || out >= in + bytes * in_parts(r) || in >= out + bytes * out_parts(r))
        return COLL_OK;
    static const char *const unless[NKINDS] = {
        [REDUCE_SCATTER] = "recv being send + rank * recvcount",
        [ALLGATHER] = "send being recv + rank * sendcount",
    };
    return fail(
        COLL_ERR_INVALID, "comm", "coll_%s: send and recv overlap without %s",
        kind_names[r->kind], unless[r->kind] ? unless[r->kind] : "being equal");
}

static coll_status check_arguments(const coll_request *r)
{
    const char *name = kind_names[r->kind];
    const size_t elem = coll_dtype_bytes(r->dtype);
    if (!r->comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: the communicator is NULL", name);
    if (!elem)
        return fail(COLL_ERR_INVALID, "comm", "coll_%s: %d is no coll_dtype",
                    name, (int)r->dtype);
    if (reduces(r->kind) && !coll_op_name(r->op))
        return fail(COLL_ERR_INVALID, "comm", "coll_%s: %d is no coll_op", name,
                    (int)r->op);
    if (r->root < 0 || r->root >= r->comm->nranks)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: root %d is no rank of %d", name, r->root,
                    r->comm->nranks);
    const size_t parts = in_parts(r) * out_parts(r);
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
    if (r->count && reads_in(r) && !r->in)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: send is NULL with count %zu", name, r->count);
    if (r->count && writes_out(r) && !r->out)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_%s: recv is NULL with count %zu", name, r->count);
    return check_overlap(r, r->count * elem);
}

/* What all ranks must agree on, in 32 bits. The algorithm too: another rule or
 * setting on one rank must not go unseen. */
static uint32_t fingerprint(const coll_request *r, int algo)
{
    uint64_t h = (uint64_t)algo << 24 ^ (uint64_t)r->kind << 16
                 ^ (uint64_t)r->dtype << 8 ^ (uint64_t)r->op
                 ^ (uint64_t)r->root << 32;
    h = (h ^ r->count) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)(h >> 32);
}

static coll_status build(coll_comm *c, const struct select_choice *choice,
                         int root, struct prepared *p)
{
    const struct plan_shape shape = {
        .rank = (c->rank + c->nranks - root) % c->nranks,
        .nranks = c->nranks,
        .segments = 1 << choice->variant,
    };
    p->root = root;
    algos[choice->algo].plan(&p->plan, &shape);
    plan_turn(&p->plan, root, c->nranks);
    return p->plan.status == COLL_OK ? exec_init(&p->exec, &p->plan, c->to)
                                     : p->plan.status;
}

/* The plan of a choice, built at its first use. */
static coll_status prepare(coll_comm *c, const struct select_choice *choice,
                           int root, struct prepared **prepared)
{
    struct prepared **at =
        &c->prepared[choice->algo * SELECT_SEGMENTS + choice->variant];
    while (*at && (*at)->root != root)
        at = &(*at)->next;
    if (!*at) {
        struct prepared *p = calloc(1, sizeof(*p));
        if (!p || build(c, choice, root, p) < 0) {
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
    for (int i = 0; c->prepared && i < nalgos * SELECT_SEGMENTS; i++)
        while (c->prepared[i]) {
            struct prepared *p = c->prepared[i];
            c->prepared[i] = p->next;
            exec_free(&p->exec);
            plan_free(&p->plan);
            free(p);
        }
    free(c->prepared);
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
           && recent->root == r->root;
}

/* Chooses the algorithm, and keeps the choice for calls like this one. */
static coll_status choose(const coll_request *r)
{
    coll_comm *c = r->comm;
    struct select_choice choice;
    struct prepared *p = NULL;
    const size_t elem = coll_dtype_bytes(r->dtype);
    combine_fn *const combine =
        reduces(r->kind) ? op_combine(r->dtype, r->op) : NULL;
    if (reduces(r->kind) && !combine)
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "coll_%s: %s is not defined on %s", kind_names[r->kind],
                    coll_op_name(r->op), coll_dtype_name(r->dtype));
    coll_status status = select_algorithm(&c->select, r->kind, c->nranks,
                                          whole_bytes(r), &choice);
    if (status == COLL_OK && algos[choice.algo].way == BY_PLAN)
        status = prepare(c, &choice, r->root, &p);
    if (status == COLL_OK)
        *recall(r) = (struct recent){
            .known = true,
            .count = r->count,
            .dtype = r->dtype,
            .op = r->op,
            .root = r->root,
            .way = algos[choice.algo].way,
            .prepared = p,
            .combine = combine,
            .elem_bytes = elem,
            .fingerprint = fingerprint(r, choice.algo),
        };
    return status;
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

/* The vector as the plan sees it: all of what one rank holds in full. */
static coll_status fill_plan(coll_request *r)
{
    coll_comm *c = r->comm;
    const size_t before = r->count * (size_t)c->rank;
    r->plan = (struct exec_call){
        .in = r->in,
        .out = r->out,
        .count = r->count * in_parts(r) * out_parts(r),
        .elem_bytes = r->elem_bytes,
        .in_first = r->kind == ALLGATHER ? before : 0,
        .out_first = r->kind == REDUCE_SCATTER ? before : 0,
        .reduce = r->combine,
        .tag = r->tag,
    };
    if (r->kind == BARRIER) { /* one byte to send */
        r->plan.in = "";
        r->plan.count = 1;
    }
    const coll_status status =
        reserve(c, exec_tmp_bytes(&r->prepared->plan, r->plan.count,
                                  r->plan.elem_bytes));
    r->plan.tmp = c->tmp;
    return status;
}

/* The tag stands for this call and all before it. So a call that differs is
 * noticed at the latest in the next one in which a rank hears of another. */
static coll_status fill(coll_request *r)
{
    coll_comm *c = r->comm;
    const struct recent *like = recall(r);
    r->status = COLL_IN_PROGRESS;
    r->way = like->way;
    r->prepared = like->prepared;
    r->combine = like->combine;
    r->elem_bytes = like->elem_bytes;
    r->tag = (c->history ^ like->fingerprint) * 0x9e3779b1u + 1;
    const coll_status status = comm_check(c);
    if (status < 0)
        return fail(status, "comm", "%s", c->sentence);
    return r->way == BY_PLAN ? fill_plan(r) : COLL_OK;
}

/* Every collective call: `here` says which. */
static coll_status run(coll_request *here, coll_request **request)
{
    coll_request *r = here;
    coll_status status = COLL_OK;
    const struct recent *like = here->comm ? recall(here) : NULL;
    if (like && is_like(like, here)) {
        status = check_vectors(here, like->elem_bytes);
    } else {
        status = check_arguments(here);
        if (status == COLL_OK)
            status = check_vectors(here, coll_dtype_bytes(here->dtype));
        if (status == COLL_OK)
            status = choose(here);
    }
    if (status == COLL_OK)
        status = fill(here);
    if (status < 0)
        return status;
    coll_comm *c = here->comm;
    if (request) {
        r = malloc(sizeof(*r));
        if (!r)
            return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
        *r = *here;
    }
    c->history = r->tag;
    if (!request && request_finish_now(r))
        return COLL_OK;
    request_enqueue(r);
    if (request) {
        *request = r;
        return COLL_OK;
    }
    status = request_wait(r);
    return status < 0 ? fail(status, "comm", "%s", c->sentence) : status;
}

/* Field by field, as zeroing all of a request would take as long as a line
 * takes to travel. */
static inline coll_request ask(enum coll_kind kind, const void *in, void *out,
                               size_t count, coll_dtype dtype, coll_op op,
                               int root, coll_comm *comm)
{
    coll_request r;
    r.comm = comm;
    r.kind = kind;
    r.root = root;
    r.dtype = dtype;
    r.op = op;
    r.in = in;
    r.out = out;
    r.count = count;
    r.started = false;
    r.early = COLL_OK;
    return r;
}

coll_status coll_allreduce(const void *send, void *recv, size_t count,
                           coll_dtype dtype, coll_op op, coll_comm *comm,
                           coll_request **request)
{
    coll_request r = ask(ALLREDUCE, send, recv, count, dtype, op, 0, comm);
    return run(&r, request);
}

coll_status coll_reduce(const void *send, void *recv, size_t count,
                        coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                        coll_request **request)
{
    coll_request r = ask(REDUCE, send, recv, count, dtype, op, root, comm);
    return run(&r, request);
}

coll_status coll_broadcast(const void *send, void *recv, size_t count,
                           coll_dtype dtype, int root, coll_comm *comm,
                           coll_request **request)
{
    coll_request r =
        ask(BROADCAST, send, recv, count, dtype, COLL_SUM, root, comm);
    return run(&r, request);
}

coll_status coll_reduce_scatter(const void *send, void *recv, size_t recvcount,
                                coll_dtype dtype, coll_op op, coll_comm *comm,
                                coll_request **request)
{
    coll_request r =
        ask(REDUCE_SCATTER, send, recv, recvcount, dtype, op, 0, comm);
    return run(&r, request);
}

coll_status coll_allgather(const void *send, void *recv, size_t sendcount,
                           coll_dtype dtype, coll_comm *comm,
                           coll_request **request)
{
    coll_request r =
        ask(ALLGATHER, send, recv, sendcount, dtype, COLL_SUM, 0, comm);
    return run(&r, request);
}

coll_status coll_barrier(coll_comm *comm, coll_request **request)
{
    coll_request r = ask(BARRIER, NULL, NULL, 0, COLL_U8, COLL_SUM, 0, comm);
    return run(&r, request);
}

static coll_status find_kind(const char *name, enum coll_kind *kind)
{
    for (int k = 0; k < NKINDS && name; k++)
        if (!strcmp(name, kind_names[k])) {
            *kind = (enum coll_kind)k;
            return COLL_OK;
        }
    const char *near = name ? nearest_name(name, kind_names, NKINDS) : NULL;
    return fail(COLL_ERR_INVALID, "comm",
                "coll_explain: \"%s\" is no collective%s%s%s",
                name ? name : "NULL", near ? "; did you mean " : "",
                near ? near : "", near ? "?" : "");
}

coll_status coll_explain(const coll_comm *comm, const char *collective,
                         size_t count, coll_dtype dtype, coll_op op,
                         coll_choice *choice)
{
    coll_request r =
        ask(ALLREDUCE, NULL, NULL, count, dtype, op, 0, (coll_comm *)comm);
    struct select_choice selected;
    if (!choice)
        return fail(COLL_ERR_INVALID, "comm", "coll_explain: choice is NULL");
    coll_status status = find_kind(collective, &r.kind);
    if (status == COLL_OK)
        status = check_arguments(&r);
    if (status == COLL_OK)
        status = select_algorithm(&comm->select, r.kind, comm->nranks,
                                  whole_bytes(&r), &selected);
    if (status == COLL_OK)
        *choice = (coll_choice){algos[selected.algo].name, selected.predicted};
    return status;
}

coll_status coll_stats(const coll_comm *comm, coll_statistics *stats)
{
    if (!comm || !stats)
        return fail(COLL_ERR_INVALID, "comm", "coll_stats: %s is NULL",
                    comm ? "stats" : "the communicator");
    *stats = comm->stats;
    return COLL_OK;
}

coll_status coll_comm_set_algorithm(coll_comm *comm, const char *rules)
{
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_comm_set_algorithm: the communicator is NULL");
    memset(comm->recent, 0, sizeof(comm->recent));
    return select_parse(&comm->select, rules, "coll_comm_set_algorithm");
}
