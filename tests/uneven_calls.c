/* SPDX-License-Identifier: MIT */
#include "uneven_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "ranks.h"
#include "thorough.h"

static const unsigned char untouched = 0xa5;

static bool gathers(const struct call *c)
{
    return c->kind == ALLGATHER || c->kind == GATHER;
}

/* Whether this rank has the vector of all parts. */
static bool has_all(const struct call *c)
{
    return c->kind == ALLGATHER || c->kind == REDUCE_SCATTER
           || c->rank == c->root;
}

/* --- values that every type holds, so that sums are exact ----------------- */

static int value(int r, size_t i)
{
    return (int)((i * 7 + (size_t)r * 3) % 5) + 1;
}

static int wanted(const struct call *c, int part, size_t i)
{
    const size_t at = c->before[part] + i;
    int x = value(0, at);
    if (c->kind == SCATTER)
        return value(c->root, at);
    if (gathers(c))
        return value(part, at);
    for (int r = 1; r < c->n; r++) {
        const int v = value(r, at);
        x = c->op == COLL_MAX    ? (v > x ? v : x)
            : c->op == COLL_BXOR ? x ^ v
                                 : x + v;
    }
    return x;
}

static void put(const struct call *c, unsigned char *x, size_t i, int v)
{
    if (c->dtype == COLL_F32)
        ((float *)(void *)x)[i] = (float)v;
    else if (c->dtype == COLL_F64)
        ((double *)(void *)x)[i] = v;
    else if (c->dtype == COLL_I32)
        ((int32_t *)(void *)x)[i] = v;
    else
        x[i] = (unsigned char)v;
}

static bool holds(const struct call *c, const unsigned char *x, size_t i, int v)
{
    const double n = c->op == COLL_AVG ? c->n : 1;
    const double got =
        c->dtype == COLL_F32   ? ((const float *)(const void *)x)[i]
        : c->dtype == COLL_F64 ? ((const double *)(const void *)x)[i]
        : c->dtype == COLL_I32 ? ((const int32_t *)(const void *)x)[i]
                               : x[i];
    return c->dtype == COLL_F32 ? (float)got == (float)v / (float)n
                                : got == v / n;
}

/* --- a call ----------------------------------------------------------------
 */

/* The same on all ranks, but for where parts lie. */
static void make_parts(struct call *c, uint64_t seed, size_t longest)
{
    uint64_t shared = seed * 1000, own = shared + 500 + (uint64_t)c->rank * 50;
    const size_t often = draw_from(&shared, 4);
    int order[MAX_RANKS];
    for (int r = 0; r < c->n; r++) {
        c->counts[r] =
            draw_from(&shared, 4) < often ? 0 : draw_from(&shared, longest + 1);
        c->before[r + 1] = c->before[r] + c->counts[r];
        const size_t i = draw_from(&own, (size_t)r + 1);
        order[r] = order[i];
        order[i] = r;
    }
    for (int i = 0; i < c->n; i++) {
        c->room += c->apart ? draw_from(&own, 4) : 0;
        c->displs[c->apart ? order[i] : i] = c->room;
        c->room += c->counts[c->apart ? order[i] : i];
    }
}

static unsigned char *take(const struct call *c, size_t bytes)
{
    void *x = NULL;
    bytes += 64; /* which nobody may touch */
    if (!c->shared)
        x = malloc(bytes);
    else if (coll_mem_alloc(&x, bytes) != COLL_OK)
        abort();
    memset(x, untouched, bytes);
    return x;
}

void give_back(const struct call *c)
{
    if (!c->shared) {
        free(c->all);
        free(c->part);
    } else {
        coll_mem_free(c->all);
        coll_mem_free(c->part);
    }
}

static unsigned char *at(const struct call *c, int part)
{
    return c->all + c->displs[part] * coll_dtype_bytes(c->dtype);
}

static unsigned char *own(const struct call *c)
{
    return c->in_place && has_all(c) ? at(c, c->rank) : c->part;
}

static void fill(const struct call *c)
{
    const size_t elem = coll_dtype_bytes(c->dtype);
    memset(c->all, untouched, c->room * elem);
    memset(c->part, untouched, c->counts[c->rank] * elem);
    for (int p = 0; p < c->n; p++)
        for (size_t i = 0; i < c->counts[p]; i++)
            if (gathers(c) ? p == c->rank : has_all(c))
                put(c, gathers(c) ? own(c) : at(c, p), i,
                    value(c->rank, c->before[p] + i));
}

void make(struct call *c, uint64_t seed, size_t longest)
{
    static const struct {
        coll_dtype dtype;
        coll_op op;
    } types[] = {
        {COLL_F32, COLL_SUM },
        {COLL_F64, COLL_AVG },
        {COLL_I32, COLL_SUM },
        {COLL_U8,  COLL_MAX },
        {COLL_F32, COLL_AVG },
        {COLL_I32, COLL_BXOR},
    };
    c->dtype = types[seed % 6].dtype;
    c->op = types[seed % 6].op;
    if (c->kind != REDUCE_SCATTER)
        c->op = COLL_SUM;
    c->root = (int)(seed / 5) % c->n;
    c->in_place = seed / 6 % 2;
    c->apart = c->kind != REDUCE_SCATTER && seed / 12 % 2;
    c->shared = seed / 24 % 2;
    make_parts(c, seed, longest);
    c->all = take(c, c->room * coll_dtype_bytes(c->dtype));
    c->part = take(c, c->counts[c->rank] * coll_dtype_bytes(c->dtype));
    fill(c);
}

static coll_status run(const struct call *c, bool keeps, coll_comm *comm,
                       coll_request **request)
{
    size_t counts[MAX_RANKS], displs[MAX_RANKS];
    memcpy(counts, c->counts, sizeof(counts));
    memcpy(displs, c->displs, sizeof(displs));
    const bool none = c->counts[c->rank] == 0 && !c->in_place;
    void *const mine = none ? NULL : own(c);
    void *const all = has_all(c) ? c->all : NULL;
    const size_t *const at = c->apart ? displs : NULL;
    const size_t count = c->counts[c->rank];
    coll_status status = COLL_ERR_INVALID;
    if (c->kind == ALLGATHER)
        status = (keeps ? coll_allgather_v_init : coll_allgather_v)(
            mine, all, counts, at, c->dtype, comm, request);
    else if (c->kind == REDUCE_SCATTER)
        status = (keeps ? coll_reduce_scatter_v_init : coll_reduce_scatter_v)(
            all, mine, counts, c->dtype, c->op, comm, request);
    else if (c->kind == GATHER)
        status = (keeps ? coll_gather_v_init
                        : coll_gather_v)(mine, count, all, all ? counts : NULL,
                                         at, c->dtype, c->root, comm, request);
    else if (c->kind == SCATTER)
        status = (keeps ? coll_scatter_v_init : coll_scatter_v)(
            all, all ? counts : NULL, at, mine, count, c->dtype, c->root, comm,
            request);
    memset(counts, 0x7f, sizeof(counts));
    memset(displs, 0x7f, sizeof(displs));
    return status;
}

coll_status start(const struct call *c, coll_comm *comm, coll_request **request)
{
    return run(c, false, comm, request);
}

int check(const struct call *c)
{
    const size_t elem = coll_dtype_bytes(c->dtype);
    size_t left = 0, touched = 0;
    for (int p = 0; p < c->n; p++)
        for (size_t i = 0; i < c->counts[p]; i++)
            EXPECT((gathers(c) ? !has_all(c) : p != c->rank)
                       || holds(c, gathers(c) ? at(c, p) : own(c), i,
                                wanted(c, p, i)),
                   "%s_v of %s, rank %d of %d, part %d, element %zu of %zu%s%s",
                   kind_names[c->kind], coll_dtype_name(c->dtype), c->rank,
                   c->n, p, i, c->counts[p], c->in_place ? ", in place" : "",
                   c->apart ? ", apart" : "");
    /* The gaps, and what is behind; no value has that byte in all of them. */
    for (size_t i = 0; i < c->room * elem + 64; i++)
        left += c->all[i] == untouched;
    touched = c->before[c->n] * elem;
    EXPECT(left >= c->room * elem + 64 - touched, "%s_v: a gap was written",
           kind_names[c->kind]);
    for (size_t i = 0; i < 64; i++)
        EXPECT(c->part[c->counts[c->rank] * elem + i] == untouched,
               "%s_v: written past the end", kind_names[c->kind]);
    return 0;
}

/* Some as a persistent request; every second rank calls anew instead. */
static int try_again(const struct call *c, coll_comm *comm, uint64_t seed)
{
    const bool keeps = c->rank % 2 == 0;
    coll_request *request = NULL;
    if (seed % 3)
        return 0;
    EXPECT(!keeps || run(c, true, comm, &request) == COLL_OK, "init");
    for (int i = 0; i < 2; i++) {
        fill(c);
        EXPECT((keeps ? coll_start(request) : start(c, comm, &request))
                   == COLL_OK,
               "%s_v, start %d", kind_names[c->kind], i);
        EXPECT(coll_wait(&request) == COLL_OK, "wait");
        if (check(c))
            return 1;
    }
    EXPECT(coll_request_free(&request) == COLL_OK, "free");
    return 0;
}

int try(coll_comm *comm, enum coll_kind kind, uint64_t seed, size_t longest)
{
    struct call c = {.rank = coll_comm_user_rank(comm),
                     .n = coll_comm_count(comm),
                     .kind = kind};
    make(&c, seed, longest);
    const coll_status status = start(&c, comm, NULL);
    EXPECT(status == COLL_OK, "%s_v, seed %lu: %d", kind_names[kind],
           (unsigned long)seed, status);
    const int wrong = check(&c) || try_again(&c, comm, seed);
    give_back(&c);
    return wrong;
}

int try_lengths(coll_comm *comm, enum coll_kind kind)
{
    static const size_t longest[] = {0, 3, 40, 3000, 70000};
    static uint64_t seed;
    const int n = coll_comm_count(comm);
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < cases(12, i == 4 ? 1 : 2); k++)
            if (try(comm, kind, seed += 5, longest[i]))
                return 1;
    for (int i = 0; i < 3 && kind != GATHER && kind != SCATTER; i++) {
        float x[MAX_RANKS] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, y[MAX_RANKS];
        EXPECT(
            (kind == ALLGATHER
                 ? coll_allgather(x, y, 1, COLL_F32, comm, NULL)
                 : coll_reduce_scatter(x, y, 1, COLL_F32, COLL_SUM, comm, NULL))
                == COLL_OK,
            "even");
        EXPECT(y[0] == (float)(kind == ALLGATHER ? 1 : n), "even: %g",
               (double)y[0]);
    }
    return 0;
}
