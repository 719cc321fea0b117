/* SPDX-License-Identifier: MIT */
/* Combines the same inputs by every algorithm, cut and grouped in every way,
 * and writes each result down, for same_bits_test.py.
 *
 *   same_bits_job FOLDER HOSTS DTYPES OPS
 *
 * One rank for each letter of HOSTS, which says on which host it takes itself
 * to be; as many dtypes of f32, f16, bf16, f64, and ops of sum, avg, prod.
 *
 * Every rank makes FOLDER/RANK: for each result a line that names it, up to
 * " bytes\n", and its bytes. Rank 0's first ones are the results in rank order,
 * computed by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hosts.h"

enum { COUNT = 2880, RANKS = 16 };

static const coll_dtype dtypes[] = {COLL_F32, COLL_F16, COLL_BF16, COLL_F64};
static const coll_op ops[] = {COLL_SUM, COLL_AVG, COLL_PROD};
static int ndtypes, nops; /* that are tried, from the first on */

/* How a vector is cut up. */
static const struct chunking {
    int calls;    /* of neighbouring parts, of unlike lengths */
    int segments; /* of each, where algorithms pipeline them */
    bool in_place, heap;
} chunkings[] = {
    {1, 1,  false, false},
    {2, 2,  true,  false},
    {3, 4,  false, true },
    {5, 8,  true,  true },
    {7, 16, false, false},
};
enum { CHUNKINGS = sizeof(chunkings) / sizeof(chunkings[0]) };

static const char *folder;
static FILE *results;
static int served, long_only, refused; /* algorithms */

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

static void write_down(coll_dtype dtype, coll_op op, const char *how,
                       const void *x)
{
    const size_t bytes = COUNT * coll_dtype_bytes(dtype);
    fprintf(results, "%s of %s\t%s\t%zu bytes\n", coll_op_name(op),
            coll_dtype_name(dtype), how, bytes);
    fwrite(x, 1, bytes, results);
}

/* In pairs, rounded once, by the plainest kernel that there is. */
static void fold(coll_dtype dtype, coll_op op, int n)
{
    static char inputs[RANKS][COUNT * 8], all[COUNT * 8];
    const void *src[RANKS];
    void *const dst = all;
    for (int r = 0; r < n; r++) {
        fill(inputs[r], dtype, r);
        src[r] = inputs[r];
    }
    op_isas[nop_isas - 1].kernels[dtype][op](&dst, 1, src, n, COUNT, n, false);
    write_down(dtype, op, "by hand", all);
}

/* Where call k begins. In whole parts for all ranks, if `unit` is how many. */
static size_t cut(const struct chunking *c, int k, int unit)
{
    const size_t u = (size_t)unit;
    const size_t at = (size_t)k * COUNT / (size_t)c->calls + (size_t)k % 3;
    return k == c->calls ? COUNT : at / u * u;
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

static int root; /* of a reduce */

/* One call of [from, to) of the vector; a reduce_scatter leaves this rank's
 * part at its place. */
static coll_status call(coll_comm *comm, enum coll_kind kind, coll_dtype dtype,
                        coll_op op, char *in, char *out, size_t from, size_t to)
{
    const size_t elem = coll_dtype_bytes(dtype);
    const size_t n = (size_t)coll_comm_count(comm), part = (to - from) / n;
    const size_t mine = (size_t)coll_comm_user_rank(comm) * part;
    in += from * elem;
    out += from * elem;
    if (kind == REDUCE)
        return coll_reduce(in, out, to - from, dtype, op, root, comm, NULL);
    if (kind == REDUCE_SCATTER)
        return coll_reduce_scatter(in, out + mine * elem, part, dtype, op, comm,
                                   NULL);
    return coll_allreduce(in, out, to - from, dtype, op, comm, NULL);
}

/* What not all ranks have goes to all. */
static coll_status tell_all(coll_comm *comm, enum coll_kind kind,
                            coll_dtype dtype, char *out, size_t from, size_t to)
{
    const size_t elem = coll_dtype_bytes(dtype);
    const size_t n = (size_t)coll_comm_count(comm), part = (to - from) / n;
    const size_t mine = (size_t)coll_comm_user_rank(comm) * part;
    out += from * elem;
    if (kind == REDUCE)
        return coll_broadcast(out, out, to - from, dtype, root, comm, NULL);
    if (kind == REDUCE_SCATTER)
        return coll_allgather(out + mine * elem, out, part, dtype, comm, NULL);
    return COLL_OK;
}

/* Ranks come in another order each time. */
static void come_late(int rank)
{
    static uint64_t calls;
    const uint64_t s = (++calls * RANKS + (uint64_t)rank) * 0x9e3779b97f4a7c15;
    usleep((useconds_t)(s >> 40) % 200);
}

static int combine(coll_comm *comm, enum coll_kind kind, coll_dtype dtype,
                   coll_op op, const struct chunking *c, bool grouped,
                   const char *rule)
{
    static char other[COUNT * 8];
    char *const in = room(c->heap), *const out = c->in_place ? in : other;
    const int unit = kind == REDUCE_SCATTER ? coll_comm_count(comm) : 1;
    char how[200];
    root = (root + 1) % coll_comm_count(comm);
    fill(in, dtype, coll_comm_user_rank(comm));
    come_late(coll_comm_user_rank(comm));
    cut_into(comm, c->segments);
    if (grouped)
        coll_group_start();
    for (int k = 0; k < c->calls; k++)
        EXPECT(call(comm, kind, dtype, op, in, out, cut(c, k, unit),
                    cut(c, k + 1, unit))
                   == COLL_OK,
               "%s", rule);
    EXPECT(!grouped || coll_group_end() == COLL_OK, "%s in a group", rule);
    for (int k = 0; k < c->calls; k++)
        EXPECT(tell_all(comm, kind, dtype, out, cut(c, k, unit),
                        cut(c, k + 1, unit))
                   == COLL_OK,
               "tell all");
    snprintf(how, sizeof(how), "%s by \"%s\", %d calls of %d segments%s%s%s",
             kind_names[kind], rule, c->calls, c->segments,
             c->in_place ? ", in place" : "", c->heap ? ", in the heap" : "",
             grouped ? ", in a group" : "");
    write_down(dtype, op, how, out);
    return 0;
}

static int every_way(coll_comm *comm, enum coll_kind kind, coll_dtype dtype,
                     const char *rule)
{
    for (int o = 0; o < nops; o++)
        for (int c = 0; c < CHUNKINGS; c++)
            for (int grouped = 0; grouped < 2; grouped++)
                if (combine(comm, kind, dtype, ops[o], &chunkings[c], grouped,
                            rule))
                    return 1;
    return 0;
}

/* Whether these ranks may run it; it is an error where sums have to be in an
 * order that it does not keep. */
static int may_run(coll_comm *comm, const struct algo *algo, coll_dtype dtype,
                   const char *rule, bool *may)
{
    double x[RANKS] = {0}, y[RANKS];
    const bool full = !strcmp(getenv("COLL_DETERMINISM"), "full");
    const coll_status status =
        call(comm, algo->kind, dtype, COLL_SUM, (char *)x, (char *)y, 0,
             algo->kind == REDUCE_SCATTER ? (size_t)coll_comm_count(comm) : 1);
    EXPECT(
        status == COLL_OK
            || (status == COLL_ERR_UNSUPPORTED
                && (strchr(rule, '@')
                    || (full ? !algo_in_order(algo) : algo->way != BY_PLAN))),
        "%s: %d", rule, status);
    *may = status == COLL_OK;
    EXPECT(!full || !*may || !op_narrow(dtype) || algo_in_order(algo),
           "%s serves %s", rule, coll_dtype_name(dtype));
    return 0;
}

static int by_all_dtypes(coll_comm *comm, const struct algo *algo,
                         const char *rule)
{
    int n = 0;
    for (int d = 0; d < ndtypes; d++) {
        bool may;
        if (may_run(comm, algo, dtypes[d], rule, &may)
            || (may && every_way(comm, algo->kind, dtypes[d], rule)))
            return 1;
        n += may;
    }
    served += n == ndtypes;
    long_only += n > 0 && n < ndtypes;
    refused += n == 0;
    return 0;
}

static int every_algorithm(coll_comm *comm)
{
    char rule[96];
    for (int a = 0; a < nalgos; a++) {
        const struct algo *algo = &algos[a];
        if (!kind_reduces(algo->kind)
            || (algo->way != BY_PLAN && (!comm->node || comm->nhosts > 1)))
            continue;
        snprintf(rule, sizeof(rule), "%s:%s%s", kind_names[algo->kind],
                 algo->way == NODE_INLINE ? "0-8193:" : "", algo->name);
        EXPECT(coll_comm_set_algorithm(comm, rule) == COLL_OK, "%s", rule);
        if (by_all_dtypes(comm, algo, rule))
            return 1;
        if (algo->way != BY_PLAN || comm->nhosts == 1
            || comm->nhosts == comm->nranks)
            continue;
        const int counts[] = {served, long_only, refused};
        strcat(rule, "@by_hosts");
        if (coll_comm_set_algorithm(comm, rule) == COLL_OK
            && by_all_dtypes(comm, algo, rule))
            return 1;
        served = counts[0];
        long_only = counts[1];
        refused = counts[2];
    }
    return 0;
}

static int job(coll_comm *comm, int rank, int n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%d", folder, rank);
    results = fopen(path, "w");
    EXPECT(results, "%s", path);
    for (int d = 0; d < ndtypes && rank == 0; d++)
        for (int o = 0; o < nops; o++)
            fold(dtypes[d], ops[o], n);
    if (every_algorithm(comm))
        return 1;
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "rules");
    for (int k = 0; k < NKINDS; k++)
        for (int d = 0; d < ndtypes && kind_reduces((enum coll_kind)k); d++)
            if (every_way(comm, (enum coll_kind)k, dtypes[d], ""))
                return 1;
    if (rank == 0)
        printf("%d served, %d for long floats only, %d refused\n", served,
               long_only, refused);
    return fclose(results);
}

int main(int argc, char **argv)
{
    if (argc != 5 || strlen(argv[2]) > RANKS) {
        fprintf(stderr, "usage: same_bits_job FOLDER HOSTS DTYPES OPS\n");
        return 2;
    }
    folder = argv[1];
    ndtypes = atoi(argv[3]);
    nops = atoi(argv[4]);
    return run_on(argv[2], NULL, job) > 0;
}
