/* SPDX-License-Identifier: MIT */
/* The v-calls: parts of any lengths, zeros among them, that lie in any order
 * with gaps, against an oracle; on one host and on several, by every algorithm.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"
#include "thorough.h"

enum { MAX_RANKS = 9, REQUESTS = 6 };

static const unsigned char untouched = 0xa5;

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static size_t draw(uint64_t *state, size_t below)
{
    return mix((*state)++) % below;
}

struct call {
    int rank, n, root;
    enum coll_kind kind;
    coll_dtype dtype;
    coll_op op;
    bool in_place, apart, shared; /* memory of coll_mem_alloc() */
    size_t counts[MAX_RANKS], displs[MAX_RANKS];
    size_t before[MAX_RANKS + 1], room; /* elements */
    unsigned char *all, *part;
};

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
    const size_t often = draw(&shared, 4);
    int order[MAX_RANKS];
    for (int r = 0; r < c->n; r++) {
        c->counts[r] =
            draw(&shared, 4) < often ? 0 : draw(&shared, longest + 1);
        c->before[r + 1] = c->before[r] + c->counts[r];
        const size_t i = draw(&own, (size_t)r + 1);
        order[r] = order[i];
        order[i] = r;
    }
    for (int i = 0; i < c->n; i++) {
        c->room += c->apart ? draw(&own, 4) : 0;
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

static void give_back(const struct call *c)
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

static void make(struct call *c, uint64_t seed, size_t longest)
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
    for (int p = 0; p < c->n; p++)
        for (size_t i = 0; i < c->counts[p]; i++)
            if (gathers(c) ? p == c->rank : has_all(c))
                put(c, gathers(c) ? own(c) : at(c, p), i,
                    value(c->rank, c->before[p] + i));
}

/* What the call was given may change as soon as it returns. */
static coll_status start(const struct call *c, coll_comm *comm,
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
        status =
            coll_allgather_v(mine, all, counts, at, c->dtype, comm, request);
    else if (c->kind == REDUCE_SCATTER)
        status = coll_reduce_scatter_v(all, mine, counts, c->dtype, c->op, comm,
                                       request);
    else if (c->kind == GATHER)
        status = coll_gather_v(mine, count, all, all ? counts : NULL, at,
                               c->dtype, c->root, comm, request);
    else if (c->kind == SCATTER)
        status = coll_scatter_v(all, all ? counts : NULL, at, mine, count,
                                c->dtype, c->root, comm, request);
    memset(counts, 0x7f, sizeof(counts));
    memset(displs, 0x7f, sizeof(displs));
    return status;
}

static int check(const struct call *c)
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

static int try(coll_comm *comm, enum coll_kind kind, uint64_t seed,
               size_t longest)
{
    struct call c = {.rank = coll_comm_user_rank(comm),
                     .n = coll_comm_count(comm),
                     .kind = kind};
    make(&c, seed, longest);
    const coll_status status = start(&c, comm, NULL);
    EXPECT(status == COLL_OK, "%s_v, seed %lu: %d", kind_names[kind],
           (unsigned long)seed, status);
    const int wrong = check(&c);
    give_back(&c);
    return wrong;
}

/* Beside even calls, and with a memory that both kinds share. */
static int try_lengths(coll_comm *comm, enum coll_kind kind)
{
    static const size_t longest[] = {0, 3, 40, 3000, 70000};
    static uint64_t seed;
    const int n = coll_comm_count(comm);
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < cases(12, i == 4 ? 2 : 4); k++)
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

static int every_algorithm(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    (void)rank;
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        char rules[96];
        const bool gathers = !strcmp(algo.collective, "allgather");
        const bool node = !strncmp(algo.name, "node_", 5);
        if ((!gathers && strcmp(algo.collective, "reduce_scatter"))
            || (node && (n == 1 || strspn(hosts, "0") != strlen(hosts))))
            continue;
        snprintf(rules, sizeof(rules), "%s:%s%s", algo.collective,
                 !strcmp(algo.name, "node_inline") ? "0-8193:" : "", algo.name);
        EXPECT(coll_comm_set_algorithm(comm, rules) == COLL_OK, "%s", rules);
        if (try_lengths(comm, gathers ? ALLGATHER : REDUCE_SCATTER)) {
            fprintf(stderr, "with %s\n", rules);
            return 1;
        }
    }
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "reset");
    return try_lengths(comm, ALLGATHER) || try_lengths(comm, REDUCE_SCATTER);
}

Test(uneven, parts_are_right_on_one_host, .timeout = 600)
{
    static const char *const on[] = {"0",       "00",       "000",
                                     "00000",   "0000",     "000000",
                                     "0000000", "00000000", "000000000"};
    for (unsigned i = 0; i < cases(9, 4); i++)
        cr_assert_eq(run_on(on[i], quick, every_algorithm), 0, "%s", on[i]);
}

/* Memory of other processes may then not be read, but block by block. */
Test(uneven, parts_are_right_through_the_segment)
{
    static const char *const settings[] = {"COLL_SINGLE_COPY=off", NULL};
    cr_assert_eq(run_on("000", settings, every_algorithm), 0);
}

Test(uneven, parts_are_right_on_several_hosts, .timeout = 600)
{
    static const char *const on[] = {"0011", "012",    "00112",
                                     "01",   "010101", "00001111"};
    for (unsigned i = 0; i < cases(6, 2); i++)
        cr_assert_eq(run_on(on[i], quick, every_algorithm), 0, "%s", on[i]);
}

/* --- alltoall_v ------------------------------------------------------------
 */

/* Of one rank: what it has for or from each. */
struct layout_of_parts {
    size_t counts[MAX_RANKS], displs[MAX_RANKS], room;
    int *x;
};

static size_t length(uint64_t seed, int from, int to, size_t longest)
{
    uint64_t state = seed * 10000 + (uint64_t)(from * 100 + to);
    return draw(&state, 3) ? draw(&state, longest + 1) : 0;
}

static int element(int from, int to, size_t i)
{
    return from * 100 + to * 10000 + (int)(i % 100);
}

static struct layout_of_parts lay_out(int n, const size_t *counts, bool apart,
                                      uint64_t seed)
{
    struct layout_of_parts l = {.room = 0};
    for (int i = 0; i < n; i++) { /* backwards if apart */
        const int p = apart ? n - 1 - i : i;
        l.room += apart ? draw(&seed, 3) : 0;
        l.counts[p] = counts[p];
        l.displs[p] = l.room;
        l.room += counts[p];
    }
    return l;
}

static int try_pairs(coll_comm *comm, uint64_t seed, size_t longest)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const bool apart = seed % 2, in_place = seed / 2 % 2;
    size_t to[MAX_RANKS], from[MAX_RANKS], read = 0;
    for (int r = 0; r < n; r++) {
        to[r] = length(seed, rank, r, longest);
        from[r] = length(seed, r, rank, longest);
    }
    struct layout_of_parts s = lay_out(n, to, apart, seed);
    struct layout_of_parts d = lay_out(n, from, apart, seed + 7);
    const size_t room = s.room > d.room ? s.room : d.room;
    s.x = malloc((room + 1) * sizeof(int));
    d.x = in_place ? s.x : malloc((room + 1) * sizeof(int));
    for (size_t i = 0; i <= room; i++)
        s.x[i] = d.x[i] = -1;
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < to[r]; i++)
            s.x[s.displs[r] + i] = element(rank, r, i);
    const coll_status status =
        coll_alltoall_v(s.x, s.counts, apart ? s.displs : NULL, d.x, d.counts,
                        apart ? d.displs : NULL, COLL_I32, comm, NULL);
    EXPECT(status == COLL_OK, "alltoall_v: %d", status);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < from[r]; i++, read++)
            EXPECT(d.x[d.displs[r] + i] == element(r, rank, i),
                   "alltoall_v, seed %lu: rank %d, from %d, element %zu: %d",
                   (unsigned long)seed, rank, r, i, d.x[d.displs[r] + i]);
    for (size_t i = 0; i <= room && !in_place; i++)
        read += d.x[i] == -1;
    EXPECT(in_place || read == room + 1, "alltoall_v: a gap was written");
    free(s.x);
    if (!in_place)
        free(d.x);
    return 0;
}

/* Lengths that only their ranks know. */
static int lengths_of_pairs(coll_comm *comm, int rank, int n)
{
    static const size_t longest[] = {0, 1, 9, 3000, 70000};
    (void)rank, (void)n;
    for (unsigned i = 0; i < 5; i++)
        for (uint64_t seed = 0; seed < cases(16, 4); seed++)
            if (try_pairs(comm, seed + 16 * i, longest[i]))
                return 1;
    return try_lengths(comm, GATHER) || try_lengths(comm, SCATTER);
}

Test(uneven, pairs_of_ranks_exchange_what_only_they_know, .timeout = 600)
{
    static const char *const on[] = {"000",    "0",        "0011",
                                     "012",    "00000",    "00",
                                     "000000", "00000000", "000000000"};
    for (unsigned i = 0; i < cases(9, 4); i++)
        cr_assert_eq(run_on(on[i], quick, lengths_of_pairs), 0, "%s", on[i]);
}

/* Several under way, each with lengths of its own, and a blocking one behind.
 */
static int many_requests(coll_comm *comm, int rank, int n)
{
    struct call c[REQUESTS];
    coll_request *requests[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) {
        c[k] = (struct call){
            .rank = rank, .n = n, .kind = k % 2 ? ALLGATHER : REDUCE_SCATTER};
        make(&c[k], 12 + 7 * (uint64_t)k, 2000);
        EXPECT(start(&c[k], comm, &requests[k]) == COLL_OK, "request %d", k);
    }
    if (try(comm, ALLGATHER, 12, 5000))
        return 1;
    for (int k = 0; k < REQUESTS; k++) {
        EXPECT(coll_wait(&requests[k]) == COLL_OK, "wait %d", k);
        if (check(&c[k]))
            return 1;
        give_back(&c[k]);
    }
    return 0;
}

Test(uneven, requests_keep_their_own_lengths)
{
    cr_assert_eq(run_on("000", quick, many_requests), 0);
    cr_assert_eq(run_on("0011", quick, many_requests), 0);
}

/* --- what is wrong ---------------------------------------------------------
 */

#define REFUSED(call, words)                                                   \
    EXPECT((call) == COLL_ERR_INVALID && strstr(coll_last_error(NULL), words), \
           "not refused with \"%s\"", words)

static int wrong_arguments(coll_comm *comm, int rank, int n)
{
    const size_t counts[] = {1, 2}, lots[] = {SIZE_MAX, 2, SIZE_MAX};
    const size_t many[] = {SIZE_MAX / 8, SIZE_MAX / 8};
    const size_t far[] = {0, SIZE_MAX / 2}, gap[] = {4, 0};
    float x[8] = {0}, y[8] = {0};
    (void)n;
    REFUSED(coll_allgather_v(x, y, NULL, NULL, COLL_F32, comm, NULL),
            "coll_allgather_v: recvcounts is NULL");
    REFUSED(coll_allgather_v(x, y, counts, NULL, COLL_F32, NULL, NULL),
            "coll_allgather_v: the communicator is NULL");
    REFUSED(coll_allgather_v(x, y, lots, NULL, COLL_F32, comm, NULL),
            "recvcounts add up to more than");
    REFUSED(coll_reduce_scatter_v(x, y, many, COLL_F32, COLL_SUM, comm, NULL),
            "coll_reduce_scatter_v: 4611686018427387902 elements of 4 bytes");
    REFUSED(coll_allgather_v(x, y, counts, far, COLL_F32, comm, NULL),
            "displs[1] is 9223372036854775807");
    REFUSED(coll_allgather_v(NULL, y, counts, NULL, COLL_F32, comm, NULL),
            "coll_allgather_v: send is NULL");
    REFUSED(
        coll_reduce_scatter_v(x, NULL, counts, COLL_F32, COLL_SUM, comm, NULL),
        "coll_reduce_scatter_v: recv is NULL");
    REFUSED(coll_allgather_v(x + !rank, x, counts, NULL, COLL_F32, comm, NULL),
            "overlap without send being recv + displs[rank]");
    REFUSED(coll_reduce_scatter_v(x, x + !rank, counts, COLL_F32, COLL_SUM,
                                  comm, NULL),
            "overlap without recv being where");
    REFUSED(coll_allgather_v(x, y, counts, NULL, (coll_dtype)77, comm, NULL),
            "coll_allgather_v: 77 is no coll_dtype");
    REFUSED(coll_gather_v(x, counts[rank], y, rank ? NULL : counts, NULL,
                          COLL_F32, 2, comm, NULL),
            "coll_gather_v: root 2 is no rank of 2");
    REFUSED(coll_gather_v(rank ? NULL : x, 2, y, counts, NULL, COLL_F32, 0,
                          comm, NULL),
            rank ? "coll_gather_v: send is NULL"
                 : "this rank sends itself 2 elements and receives 1");
    REFUSED(coll_scatter_v(rank ? NULL : x, NULL, NULL, rank ? NULL : y, 3,
                           COLL_F32, 0, comm, NULL),
            rank ? "coll_scatter_v: recv is NULL"
                 : "coll_scatter_v: sendcounts is NULL");
    REFUSED(coll_alltoall_v(x, counts, NULL, y, lots + 1, NULL, COLL_F32, comm,
                            NULL),
            "coll_alltoall_v: ");
    REFUSED(coll_alltoall_v(x, counts, NULL, x + 1, counts, NULL, COLL_F32,
                            comm, NULL),
            "coll_alltoall_v: send and recv overlap without being equal");
    EXPECT(coll_reduce_scatter_v(x, y, counts, COLL_F32, COLL_BAND, comm, NULL)
                   == COLL_ERR_UNSUPPORTED
               && strstr(coll_last_error(NULL), "coll_reduce_scatter_v: "),
           "not defined");
    /* What is sent may lie in a gap. None of all this did harm. */
    EXPECT(coll_allgather_v(x + 6, x, counts, gap, COLL_F32, comm, NULL)
               == COLL_OK,
           "a gap");
    return try(comm, ALLGATHER, 1, 100);
}

Test(uneven, wrong_arguments_are_refused_and_do_no_harm)
{
    cr_assert_eq(run_on("00", quick, wrong_arguments), 0);
}

/* Rank 1 says another length of its own part, or all ranks' parts in another
 * order; among others, none where others say some. */
static const size_t said[][2][3] = {
    {{5, 6, 7}, {5, 7, 7}},
    {{5, 6, 7}, {5, 7, 6}},
    {{0, 6, 0}, {0, 0, 0}},
    {{0, 0, 0}, {0, 6, 0}},
    {{0, 0, 0}, {6, 0, 0}},
    {{6, 0, 6}, {6, 6, 6}},
};
static unsigned pair;
static enum coll_kind kind;

static int different_lengths(coll_comm *comm, int rank, int n)
{
    float x[32] = {0}, y[32] = {0};
    const size_t *counts = said[pair][rank == 1];
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status =
            kind == ALLGATHER
                ? coll_allgather_v(x, y, counts, NULL, COLL_F32, comm, NULL)
                : coll_reduce_scatter_v(x, y, counts, COLL_F32, COLL_SUM, comm,
                                        NULL);
    const coll_status first = status;
    if (status == COLL_OK)
        status = coll_barrier(comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "pair %u: %d, %d", pair, first, status);
    EXPECT(strstr(coll_last_error(comm), kind == ALLGATHER
                                             ? "called allgather_v of "
                                             : "called reduce_scatter_v of ")
               || first == COLL_OK,
           "%s", coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(uneven, different_lengths_are_an_error_on_every_rank)
{
    for (kind = REDUCE_SCATTER; kind <= ALLGATHER; kind++)
        for (pair = 0; pair < sizeof(said) / sizeof(said[0]); pair++) {
            cr_assert_eq(run_on("000", quick, different_lengths), 0, "pair %u",
                         pair);
            cr_assert_eq(run_on("011", quick, different_lengths), 0, "pair %u",
                         pair);
        }
}

/* Rank 0 sends rank 1 `from` elements, which expects `to`; also none. */
static const size_t between[][2] = {
    {5, 6},
    {0, 1},
    {1, 0},
    {7, 0},
};

static int different_pairs(coll_comm *comm, int rank, int n)
{
    char x[32] = {0}, y[32] = {0};
    size_t sends[3] = {2, 2, 2}, receives[3] = {2, 2, 2};
    if (rank == 0)
        sends[1] = between[pair][0];
    if (rank == 1)
        receives[0] = between[pair][1];
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK && kind == ALLTOALL)
        status = coll_alltoall_v(x, sends, NULL, y, receives, NULL, COLL_U8,
                                 comm, NULL);
    else if (status == COLL_OK && kind == GATHER)
        status = coll_gather_v(x, rank ? 2 : sends[1], y, receives, NULL,
                               COLL_U8, 1, comm, NULL);
    else if (status == COLL_OK)
        status = coll_scatter_v(x, sends, NULL, y, rank ? receives[0] : 2,
                                COLL_U8, 0, comm, NULL);
    if (status == COLL_OK)
        status = coll_barrier(comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "%s_v, pair %u: %d", kind_names[kind],
           pair, status);
    coll_comm_destroy(comm);
    _exit(0);
}

/* Each takes a second, in which others might know a better sentence. */
Test(uneven, different_lengths_of_a_pair_are_an_error_on_every_rank)
{
    const unsigned step = thorough() ? 1 : 3;
    for (kind = GATHER; kind <= ALLTOALL; kind++)
        for (pair = kind % step; pair < sizeof(between) / sizeof(between[0]);
             pair += step) {
            cr_assert_eq(run_on("000", quick, different_pairs), 0,
                         "%s_v, pair %u", kind_names[kind], pair);
            if (thorough())
                cr_assert_eq(run_on("011", quick, different_pairs), 0,
                             "%s_v, pair %u", kind_names[kind], pair);
        }
}
