/* SPDX-License-Identifier: MIT */
/* COLL_DETERMINISM: with `full`, the bits are those of the sum in rank order,
 * computed here by each rank alone, whichever algorithm runs, wherever the
 * ranks are, however calls are cut and whatever memory vectors are in; and
 * without it they are not. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"
#include "thorough.h"

enum { COUNT = 3000, RANKS = 16 };

static const coll_dtype dtypes[] = {COLL_F32, COLL_F16, COLL_BF16, COLL_F64};
static const coll_op ops[] = {COLL_SUM, COLL_AVG, COLL_PROD};

/* Of many magnitudes, so that sums depend on their order. */
static void fill(void *x, coll_dtype dtype, int rank)
{
    uint64_t s = 77 + (uint64_t)rank * 1000003;
    for (int i = 0; i < COUNT; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        const double magnitude = (double)(1 << (s >> 60));
        const double wide =
            ((double)(s >> 11) / 9007199254740992.0 - .5) * magnitude;
        const float single = (float)wide;
        uint32_t bits;
        memcpy(&bits, &single, 4);
        if (dtype == COLL_F64)
            ((double *)x)[i] = wide;
        else if (dtype == COLL_F32)
            ((float *)x)[i] = single;
        else if (dtype == COLL_BF16)
            ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
        else /* no infinity, and no zeros that were small */
            ((uint16_t *)x)[i] = (uint16_t)(s >> 48 & 0xbfff);
    }
}

/* From rank 0 on, rounded once, by the plainest kernel that there is. */
static void fold(void *all, coll_dtype dtype, coll_op op, int n)
{
    static char inputs[RANKS][COUNT * 8];
    const void *src[RANKS];
    for (int r = 0; r < n; r++) {
        fill(inputs[r], dtype, r);
        src[r] = inputs[r];
    }
    op_isas[nop_isas - 1].kernels[dtype][op](&all, 1, src, n, COUNT, n, false);
}

/* How a vector is combined by one call or several. */
struct way {
    int calls; /* of neighbouring parts, of unlike lengths */
    bool in_place, heap;
};

static const struct way ways[] = {
    {1, false, false},
    {1, true,  true },
    {2, true,  false},
    {3, false, true },
    {5, true,  true },
    {7, false, false},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static size_t cut(const struct way *w, int k)
{
    const size_t at = (size_t)k * COUNT / (size_t)w->calls;
    return k == 0 || k == w->calls ? at : at + (size_t)k % 3;
}

static char *room(bool heap)
{
    static char *mine, *shared;
    void *x;
    if (!mine)
        mine = malloc(COUNT * 8);
    if (!shared && coll_mem_alloc(&x, COUNT * 8) == COLL_OK)
        shared = x;
    return heap ? shared : mine;
}

/* An allreduce; or a reduce to the last rank, which then tells all. */
static int combine(coll_comm *comm, enum coll_kind kind, coll_dtype dtype,
                   coll_op op, const struct way *w, char *out)
{
    static char other[COUNT * 8];
    const int last = coll_comm_count(comm) - 1;
    const size_t elem = coll_dtype_bytes(dtype);
    char *const in = room(w->heap), *const to = w->in_place ? in : other;
    fill(in, dtype, coll_comm_user_rank(comm));
    for (int k = 0; k < w->calls; k++) {
        const size_t at = cut(w, k), count = cut(w, k + 1) - at;
        const coll_status status =
            kind == REDUCE ? coll_reduce(in + at * elem, to + at * elem, count,
                                         dtype, op, last, comm, NULL)
                           : coll_allreduce(in + at * elem, to + at * elem,
                                            count, dtype, op, comm, NULL);
        EXPECT(status == COLL_OK, "%s of %zu", kind_names[kind], count);
    }
    memcpy(out, to, COUNT * elem);
    if (kind == REDUCE)
        EXPECT(coll_broadcast(out, out, COUNT * elem, COLL_U8, last, comm, NULL)
                   == COLL_OK,
               "broadcast");
    return 0;
}

/* A part for each rank; all parts then go to all. */
static int combine_parts(coll_comm *comm, coll_dtype dtype, coll_op op,
                         const struct way *w, char *out)
{
    const int n = coll_comm_count(comm), me = coll_comm_user_rank(comm);
    const size_t elem = coll_dtype_bytes(dtype), part = COUNT / (size_t)n;
    char *const in = room(w->heap);
    char own[COUNT * 8];
    fill(in, dtype, me);
    char *const to = w->in_place ? in + (size_t)me * part * elem : own;
    EXPECT(coll_reduce_scatter(in, to, part, dtype, op, comm, NULL) == COLL_OK,
           "reduce_scatter");
    EXPECT(coll_allgather(to, out, part, dtype, comm, NULL) == COLL_OK,
           "allgather");
    return 0;
}

static int differing; /* results that are not those in rank order */

static int compare(const char *out, coll_dtype dtype, coll_op op, int n)
{
    static char all[4][3][COUNT * 8];
    static bool known[4][3];
    const int d = dtype == COLL_F32    ? 0
                  : dtype == COLL_F16  ? 1
                  : dtype == COLL_BF16 ? 2
                                       : 3;
    const int o = op == COLL_SUM ? 0 : op == COLL_AVG ? 1 : 2;
    if (!known[d][o])
        fold(all[d][o], dtype, op, n);
    known[d][o] = true;
    return memcmp(out, all[d][o], COUNT * coll_dtype_bytes(dtype)) != 0;
}

static bool full(void)
{
    return !strcmp(getenv("COLL_DETERMINISM"), "full");
}

static int every_way(coll_comm *comm, enum coll_kind kind, const char *rule)
{
    static char out[COUNT * 8];
    const int n = coll_comm_count(comm);
    const int nops = full() && thorough() ? 3 : 1;
    for (int d = 0; d < 4; d++)
        for (int o = 0; o < nops; o++)
            for (int w = 0; w < WAYS; w++) {
                if (kind == REDUCE_SCATTER
                        ? combine_parts(comm, dtypes[d], ops[o], &ways[w], out)
                        : combine(comm, kind, dtypes[d], ops[o], &ways[w], out))
                    return 1;
                const int wrong = compare(out, dtypes[d], ops[o], n);
                EXPECT(!wrong || !full(),
                       "%s of %s by \"%s\", hosts %s: %d calls%s%s: other bits",
                       coll_op_name(ops[o]), coll_dtype_name(dtypes[d]), rule,
                       hosts, ways[w].calls,
                       ways[w].in_place ? " in place" : "",
                       ways[w].heap ? ", in the heap" : "");
                differing += wrong;
            }
    return 0;
}

/* By all that may serve, and as the library chooses. */
static int every_algorithm(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    char rule[96];
    (void)rank, (void)n;
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        enum coll_kind kind = ALLREDUCE;
        while (kind < NKINDS && strcmp(kind_names[kind], algo.collective))
            kind++;
        if (!kind_reduces(kind)
            || (!strncmp(algo.name, "node", 4) && comm->nhosts > 1))
            continue;
        /* Short vectors only. */
        snprintf(rule, sizeof(rule), "%s:%s%s", algo.collective,
                 strstr(algo.name, "inline") ? "0-8193:" : "", algo.name);
        EXPECT(coll_comm_set_algorithm(comm, rule) == COLL_OK, "%s", rule);
        float x[100] = {0};
        const coll_status status =
            sum_or_gather(comm, kind, x, kind == REDUCE_SCATTER ? x + 50 : x,
                          kind == REDUCE_SCATTER ? 1 : 100, NULL);
        EXPECT(status == COLL_OK
                   || (full() && status == COLL_ERR_UNSUPPORTED
                       && !algo_in_order(algo_find(kind, algo.name))),
               "%s: %d", rule, status);
        if (status == COLL_OK && every_way(comm, kind, rule))
            return 1;
    }
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "rules");
    for (int k = 0; k < NKINDS; k++)
        if (kind_reduces((enum coll_kind)k)
            && every_way(comm, (enum coll_kind)k, ""))
            return 1;
    if (!full())
        EXPECT(differing > 20, "%d results differ", differing);
    return 0;
}

static const char *const fully[] = {"COLL_DETERMINISM=full", NULL};

Test(determinism, full_means_the_sum_in_rank_order, .timeout = 600)
{
    static const char *const places[] = {
        "000000", "001122", "012345", "010101", "000111", "012210", "001011",
        "021021", "000001", "011111", "012012", "100110", "101010", "120120",
        "210012", "221100", "012344", "001234", "012300", "011110",
    };
    for (unsigned i = 0; i < cases(20, 4); i++)
        cr_assert_eq(run_on(places[i], fully, every_algorithm), 0, "%s",
                     places[i]);
}

static int in_groups(coll_comm *comm, int rank, int n)
{
    (void)rank, (void)n;
    EXPECT(!comm->node->flat, "one group");
    return every_way(comm, ALLREDUCE, "") || every_way(comm, REDUCE, "");
}

/* Ranks of one host in groups, whose sums would be in another order. */
Test(determinism, full_uses_no_groups_of_a_host)
{
    static const char *const grouped[] = {
        "COLL_DETERMINISM=full", "COLL_CLUSTER=machine:ft2000plus", NULL};
    cr_assert_eq(run_on("0000000000000000", grouped, in_groups), 0);
}

/* Or the test above could not fail. */
Test(determinism, without_it_the_order_shows)
{
    static const char *const off[] = {"COLL_DETERMINISM=off", NULL};
    cr_assert_eq(run_on("001122", off, every_algorithm), 0);
}

/* --- run and layout ------------------------------------------------------- */

static int keeps_to_one(coll_comm *comm, int rank, int n)
{
    static float x[20000], first[20000], y[20000];
    (void)n;
    EXPECT(!comm->select.adapts, "learns");
    EXPECT(!strcmp(getenv("COLL_DETERMINISM"), "run") || !comm->calibrates,
           "measures");
    for (int i = 0; i < 20000; i++)
        x[i] = 1.0F / (float)(i + 3 * rank + 1);
    for (int k = 0; k < 60; k++) {
        EXPECT(coll_allreduce(x, k ? y : first, 20000, COLL_F32, COLL_SUM, comm,
                              NULL)
                   == COLL_OK,
               "sum");
        EXPECT(!k || !memcmp(first, y, sizeof(y)), "call %d", k);
    }
    return 0;
}

Test(determinism, run_and_layout_learn_nothing)
{
    static const char *const run[] = {"COLL_DETERMINISM=run", NULL};
    static const char *const same[] = {"COLL_DETERMINISM=layout", NULL};
    cr_assert_eq(run_on("0011", run, keeps_to_one), 0);
    cr_assert_eq(run_on("0011", same, keeps_to_one), 0);
}

static int wrong_words(coll_comm *comm, int rank, int n)
{
    (void)comm, (void)rank, (void)n;
    return 0;
}

Test(determinism, another_word_is_an_error)
{
    static const char *const wrong[] = {"COLL_DETERMINISM=fully", NULL};
    cr_assert_eq(run_on("00", wrong, wrong_words), 2);
}
