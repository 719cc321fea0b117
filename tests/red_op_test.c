/* SPDX-License-Identifier: MIT */
/* Operators of the caller's own: functions, and sums of products. */
#include <criterion/criterion.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "op/op.h"
#include "op_oracle.h"
#include "ranks.h"
#include "thorough.h"

static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

/* --- by a function -------------------------------------------------------- */

/* x -> a x + b, as a << 32 | b, with numbers modulo 2^32: to do one after the
 * other is associative, and does not commute. */
static uint64_t after(uint64_t x, uint64_t y)
{
    const uint32_t a = (uint32_t)(x >> 32), b = (uint32_t)x;
    const uint32_t c = (uint32_t)(y >> 32), d = (uint32_t)y;
    return (uint64_t)(a * c) << 32 | (uint32_t)(b * c + d);
}

static uint64_t map_of(int rank, size_t i)
{
    return (uint64_t)(2 * rank + 3) << 32 | (uint32_t)(rank * 7 + (int)i);
}

static uint64_t map_of_all(int n, size_t i)
{
    uint64_t x = map_of(0, i);
    for (int r = 1; r < n; r++)
        x = after(x, map_of(r, i));
    return x;
}

static void compose(void *out, const void *a, const void *b, size_t count,
                    coll_dtype dtype, void *context)
{
    const uint64_t *x = a, *y = b;
    for (size_t i = 0; i < count; i++)
        ((uint64_t *)out)[i] = after(x[i], y[i]);
    *(bool *)context |= dtype == COLL_U64;
}

static void fill(uint64_t *x, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = map_of(rank, i);
}

static int is_composed(const uint64_t *x, int n, size_t from, size_t count,
                       const char *what)
{
    for (size_t i = 0; i < count; i++)
        EXPECT(x[i] == map_of_all(n, from + i), "%s of %zu, element %zu", what,
               count, i);
    return 0;
}

/* All kinds, in place and not, at every root. */
static int composes(coll_comm *comm, coll_op op, size_t count)
{
    const int n = coll_comm_count(comm), me = coll_comm_user_rank(comm);
    const size_t all = count * (size_t)n, mine = count * (size_t)me;
    uint64_t *in = malloc((all + 1) * 8), *out = malloc((all + 1) * 8);
    int wrong = 0;
    for (int in_place = 0; in_place < 2; in_place++) {
        uint64_t *const to = in_place ? in : out;
        fill(in, me, count);
        EXPECT(coll_allreduce(in, to, count, COLL_U64, op, comm, NULL) == 0,
               "allreduce");
        wrong |= is_composed(to, n, 0, count, "allreduce");
        for (int root = 0; root < n; root++) {
            fill(in, me, count);
            EXPECT(coll_reduce(in, me == root ? to : NULL, count, COLL_U64, op,
                               root, comm, NULL)
                       == 0,
                   "reduce");
            if (me == root)
                wrong |= is_composed(to, n, 0, count, "reduce");
        }
        fill(in, me, all);
        EXPECT(coll_reduce_scatter(in, in_place ? in + mine : out, count,
                                   COLL_U64, op, comm, NULL)
                   == 0,
               "reduce_scatter");
        wrong |= is_composed(in_place ? in + mine : out, n, mine, count,
                             "reduce_scatter");
    }
    free(in);
    free(out);
    return wrong;
}

static int functions(coll_comm *comm, int rank, int n)
{
    const size_t counts[] = {0, 1, 5, 1000, 60007};
    bool called = false;
    coll_op op;
    (void)rank;
    EXPECT(coll_red_op_create(&op, compose, &called, 0, comm) == 0, "create");
    EXPECT(!strcmp(coll_op_name(op), "user"), "name");
    for (int i = 0; i < 5; i++)
        if (composes(comm, op, counts[i]))
            return 1;
    EXPECT(called == (n > 1), "the context was not handed on");
    EXPECT(coll_red_op_destroy(op, comm) == COLL_OK, "destroy");
    return 0;
}

Test(red_op, what_does_not_commute_is_combined_in_rank_order, .timeout = 600)
{
    const int sizes[] = {1, 2, 3, 5, 8};
    for (unsigned i = 0; i < cases(5, 2); i++)
        cr_assert_eq(run_ranks(sizes[i], over_shm, functions), 0, "shm %d",
                     sizes[i]);
    for (unsigned i = 1; i < cases(5, 2); i++)
        cr_assert_eq(run_ranks(sizes[i], over_ucx, functions), 0, "ucx %d",
                     sizes[i]);
}

/* Messages only: every algorithm says that it cannot, or does it right. */
static int every_algorithm(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    coll_op op;
    bool called = false;
    int served = 0, refused = 0;
    EXPECT(coll_red_op_create(&op, compose, &called, 0, comm) == 0, "create");
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        uint64_t x[100], y[100];
        if (strcmp(algo.collective, "allreduce")
            || !strncmp(algo.name, "node", 4))
            continue;
        EXPECT(coll_comm_set_algorithm(comm, algo.name) == COLL_OK, "rules");
        fill(x, rank, 100);
        const coll_status status =
            coll_allreduce(x, y, 100, COLL_U64, op, comm, NULL);
        if (status == COLL_OK) {
            if (is_composed(y, n, 0, 100, algo.name))
                return 1;
            served++;
            continue;
        }
        refused++;
        EXPECT(status == COLL_ERR_UNSUPPORTED, "%s: %d", algo.name, status);
        EXPECT(strstr(coll_last_error(NULL), "halving_doubling_near"),
               "no valid names");
    }
    EXPECT(served > 10 && refused > 5, "%d served, %d not", served, refused);
    return 0;
}

Test(red_op, algorithms_in_another_order_are_refused)
{
    cr_assert_eq(run_ranks(4, over_ucx, every_algorithm), 0);
}

static void larger(void *out, const void *a, const void *b, size_t count,
                   coll_dtype dtype, void *context)
{
    (void)context;
    for (size_t i = 0; i < count * coll_dtype_bytes(dtype); i++) {
        const unsigned char x = ((const unsigned char *)a)[i];
        const unsigned char y = ((const unsigned char *)b)[i];
        ((unsigned char *)out)[i] = x > y ? x : y;
    }
}

/* Of one that commutes no algorithm is refused. */
static int commutes(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    coll_op op;
    EXPECT(coll_red_op_create(&op, larger, NULL, 1, comm) == 0, "create");
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        uint8_t x[3000], y[3000];
        if (strcmp(algo.collective, "allreduce")
            || !strncmp(algo.name, "node", 4))
            continue;
        EXPECT(coll_comm_set_algorithm(comm, algo.name) == COLL_OK, "rules");
        for (int i = 0; i < 3000; i++)
            x[i] = (uint8_t)(i * 7 + rank * 31);
        EXPECT(coll_allreduce(x, y, 750, COLL_F32, op, comm, NULL) == 0, "%s",
               algo.name);
        for (int i = 0; i < 3000; i++) {
            uint8_t most = 0;
            for (int r = 0; r < n; r++)
                most = (uint8_t)(i * 7 + r * 31) > most
                           ? (uint8_t)(i * 7 + r * 31)
                           : most;
            EXPECT(y[i] == most, "%s", algo.name);
        }
    }
    return 0;
}

Test(red_op, what_commutes_takes_any_algorithm)
{
    cr_assert_eq(run_ranks(5, over_ucx, commutes), 0);
}

/* A dst may be a later src, blocks are not whole, and there may be several dst.
 */
Test(red_op, functions_fold_any_number_of_vectors)
{
    enum { N = 1300 };
    static uint64_t x[4][N], other[N];
    bool called = false;
    const struct combine c = {
        .function = compose, .context = &called, .dtype = COLL_U64};
    for (int nsrc = 1; nsrc <= 4; nsrc++)
        for (int ndst = 1; ndst <= 2; ndst++) {
            void *const dst[] = {x[nsrc - 1], other};
            const void *src[4];
            for (int r = 0; r < nsrc; r++) {
                fill(x[r], r, N);
                src[r] = x[r];
            }
            op_run(&c, dst, ndst, src, nsrc, N, 1, false);
            for (int j = 0; j < ndst; j++)
                for (size_t i = 0; i < N; i++)
                    cr_assert_eq(((uint64_t *)dst[j])[i], map_of_all(nsrc, i),
                                 "%d sources, %d results", nsrc, ndst);
        }
}

/* --- multiplied first ----------------------------------------------------- */

/* A small number that is no power of two, as a code of dtype. */
static uint64_t code_of(coll_dtype dtype, size_t i)
{
    const float x = (float)(i % 13) - 6.25F + (float)(i % 7) / 3;
    const double wide = (double)x;
    uint64_t bits = 0;
    if (dtype == COLL_F64)
        memcpy(&bits, &wide, sizeof(wide));
    else if (dtype == COLL_F32)
        memcpy(&bits, &x, sizeof(x));
    else if (oracle_is_narrow(dtype))
        bits = i * 5 % oracle_largest(dtype) / 2 + 3;
    else
        bits = i * 0x9e3779b97f4a7c15u;
    const size_t bytes = coll_dtype_bytes(dtype);
    return bytes == 8 ? bits : bits & ((UINT64_C(1) << 8 * bytes) - 1);
}

enum { PRODUCTS = 2000 };

/* What all ranks' products come to, from rank 0 on. */
static uint64_t sum_of_products(coll_dtype d, int n, size_t i)
{
    uint64_t products[8];
    for (int r = 0; r < n; r++)
        products[r] = oracle_pair(d, COLL_PROD, code_of(d, i + 3 * (size_t)r),
                                  code_of(d, 17 + (size_t)r));
    return oracle_fold(d, COLL_SUM, products, n, 1);
}

static int multiplies(coll_comm *comm, coll_dtype d, coll_op op, int in_place)
{
    const int n = coll_comm_count(comm), me = coll_comm_user_rank(comm);
    const size_t m = (size_t)n, part = PRODUCTS / m;
    static uint64_t in[PRODUCTS], kept[PRODUCTS], out[PRODUCTS];
    for (int kind = 0; kind < 3; kind++) {
        uint64_t *const to = in_place && kind < 2 ? in : out;
        for (size_t i = 0; i < PRODUCTS; i++)
            oracle_store(d, in, i, code_of(d, i + 3 * (size_t)me));
        memcpy(kept, in, sizeof(in));
        const coll_status status =
            kind == 0   ? coll_allreduce(in, to, PRODUCTS, d, op, comm, NULL)
            : kind == 1 ? coll_reduce(in, me == n - 1 ? to : NULL, PRODUCTS, d,
                                      op, n - 1, comm, NULL)
                        : coll_reduce_scatter(in, to, part, d, op, comm, NULL);
        const size_t first = kind == 2 ? (size_t)me * part : 0;
        const size_t count = kind == 2 ? part : PRODUCTS;
        EXPECT(status == COLL_OK, "kind %d", kind);
        EXPECT(to == in || !memcmp(in, kept, sizeof(in)), "input written");
        for (size_t i = 0; i < count && (kind != 1 || me == n - 1); i++)
            EXPECT(oracle_same(d, oracle_load(d, to, i),
                               sum_of_products(d, n, first + i)),
                   "kind %d of %s, element %zu", kind, coll_dtype_name(d), i);
    }
    return 0;
}

/* Each rank has a number of its own. */
static int products(coll_comm *comm, int rank, int n)
{
    (void)n;
    for (coll_dtype d = COLL_I8; d <= COLL_F8E5M2; d++) {
        const uint64_t code = code_of(d, 17 + (size_t)rank);
        unsigned char scalar[8];
        coll_op op;
        oracle_store(d, scalar, 0, code);
        EXPECT(coll_red_op_create_pre_mul_sum(&op, scalar, d, comm) == 0,
               "create");
        memset(scalar, 0, sizeof(scalar));
        EXPECT(!strcmp(coll_op_name(op), "pre_mul_sum"), "name");
        if (multiplies(comm, d, op, 0) || multiplies(comm, d, op, 1))
            return 1;
        EXPECT(coll_red_op_destroy(op, comm) == COLL_OK, "destroy");
    }
    return 0;
}

Test(red_op, products_are_rounded_then_summed, .timeout = 600)
{
    static const char *const full_shm[] = {"COLL_TRANSPORT=shm",
                                           "COLL_DETERMINISM=full", NULL};
    static const char *const full_ucx[] = {"COLL_TRANSPORT=ucx",
                                           "COLL_DETERMINISM=full", NULL};
    cr_assert_eq(run_ranks(1, full_shm, products), 0);
    cr_assert_eq(run_ranks(4, full_shm, products), 0);
    cr_assert_eq(run_ranks(3, full_ucx, products), 0);
}

/* Large numbers, each divided before the sum: their mean, where the sum of all
 * is above what a float can be. */
static int near_the_largest(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 5000 };
    const float part = 1.0F / (float)n;
    float x[COUNT];
    coll_op op;
    EXPECT(coll_red_op_create_pre_mul_sum(&op, &part, COLL_F32, comm) == 0,
           "create");
    for (size_t count = 1; count <= COUNT; count *= COUNT) {
        for (size_t i = 0; i < count; i++)
            x[i] = FLT_MAX / 2;
        EXPECT(coll_allreduce(x, x, count, COLL_F32, op, comm, NULL) == 0,
               "rank %d", rank);
        for (size_t i = 0; i < count; i++)
            EXPECT(x[i] == FLT_MAX / 2, "%zu numbers: %g", count, (double)x[i]);
    }
    return coll_red_op_destroy(op, comm) != COLL_OK;
}

Test(red_op, what_is_divided_before_the_sum_does_not_overflow)
{
    cr_assert_eq(run_ranks(4, over_shm, near_the_largest), 0);
    cr_assert_eq(run_ranks(4, over_ucx, near_the_largest), 0);
}

/* --- averages ------------------------------------------------------------- */

/* Exact where the sum is in the type and is divided once; f16, bf16 and f8 may
 * be rounded on the way but where they are combined in rank order. */
static int averages(coll_comm *comm, int rank, int n)
{
    const bool full = !strcmp(getenv("COLL_DETERMINISM"), "full");
    coll_algorithm_info algo;
    for (int a = 0; coll_algorithm_get(a, &algo); a++)
        for (coll_dtype d = COLL_I8; d <= COLL_F8E5M2; d++) {
            uint64_t in[64], out[64];
            const bool sums = !strcmp(algo.collective, "allreduce");
            if (!sums || (oracle_is_float(d) && !full))
                continue;
            EXPECT(coll_comm_set_algorithm(comm, algo.name) == COLL_OK, "rule");
            for (size_t i = 0; i < 64; i++)
                oracle_store(d, in, i, code_of(d, i + 3 * (size_t)rank));
            const coll_status status =
                coll_allreduce(in, out, 64, d, COLL_AVG, comm, NULL);
            for (size_t i = 0; i < 64 && status == COLL_OK; i++) {
                uint64_t x[8];
                for (int r = 0; r < n; r++)
                    x[r] = code_of(d, i + 3 * (size_t)r);
                EXPECT(oracle_same(d, oracle_load(d, out, i),
                                   oracle_fold(d, COLL_AVG, x, n, n)),
                       "%s of %s", algo.name, coll_dtype_name(d));
            }
        }
    return 0;
}

Test(red_op, averages_are_one_sum_and_one_division)
{
    static const char *const settings[][3] = {
        {"COLL_TRANSPORT=shm", "COLL_DETERMINISM=off",  NULL},
        {"COLL_TRANSPORT=ucx", "COLL_DETERMINISM=off",  NULL},
        {"COLL_TRANSPORT=shm", "COLL_DETERMINISM=full", NULL},
        {"COLL_TRANSPORT=ucx", "COLL_DETERMINISM=full", NULL},
    };
    for (int i = 0; i < 4; i++)
        cr_assert_eq(run_ranks(3, settings[i], averages), 0, "%d", i);
}

/* --- handles -------------------------------------------------------------- */

static int expect_invalid(coll_status status, const char *part)
{
    EXPECT(status == COLL_ERR_INVALID, "%d, of \"%s\"", status, part);
    EXPECT(strstr(coll_last_error(NULL), part), "no \"%s\"", part);
    return 0;
}

static int handles(coll_comm *comm, int rank, int n)
{
    const float scalar = 2;
    float x[4] = {1, 2, 3, 4};
    coll_op ops[65], op;
    (void)n;
    for (int i = 0; i < 64; i++)
        EXPECT(coll_red_op_create(&ops[i], larger, NULL, 1, comm) == 0, "%d",
               i);
    EXPECT(coll_red_op_create(&ops[64], larger, NULL, 1, comm)
               == COLL_ERR_UNSUPPORTED,
           "65");
    int64_t values[2] = {ops[63], -(int64_t)ops[63]};
    EXPECT(coll_allreduce(values, values, 2, COLL_I64, COLL_MAX, comm, NULL)
               == 0,
           "max");
    EXPECT(values[0] == -values[1], "handles differ");
    for (int i = 0; i < 64; i++)
        EXPECT(coll_red_op_destroy(ops[i], comm) == COLL_OK, "%d", i);
    EXPECT(coll_red_op_create_pre_mul_sum(&op, &scalar, COLL_F32, comm) == 0,
           "create");
    coll_op unknown;
    EXPECT(!coll_op_find("user", &unknown), "no name of an op");
    if (expect_invalid(
            coll_allreduce(x, x, 4, (coll_dtype)ops[0], COLL_SUM, comm, NULL),
            "no coll_dt")
        || expect_invalid(coll_allreduce(x, x, 4, COLL_F32, ops[0], comm, NULL),
                          "destroyed")
        || expect_invalid(coll_allreduce(x, x, 2, COLL_F64, op, comm, NULL),
                          "made for f32, not for f64")
        || expect_invalid(coll_red_op_destroy(ops[1], comm), "destroyed")
        || expect_invalid(coll_red_op_destroy(COLL_SUM, comm), "not made")
        || expect_invalid(coll_red_op_create(NULL, larger, NULL, 1, comm),
                          "op is NULL")
        || expect_invalid(coll_red_op_create(&op, NULL, NULL, 1, comm),
                          "function is NULL")
        || expect_invalid(
            coll_red_op_create_pre_mul_sum(&op, NULL, COLL_F32, comm),
            "scalar is NULL")
        || expect_invalid(
            coll_red_op_create_pre_mul_sum(&op, x, (coll_dtype)77, comm),
            "no coll_dtype"))
        return 1;
    coll_request *request;
    EXPECT(coll_allreduce(x, x, 4, COLL_F32, op, comm, &request) == 0, "start");
    /* A rank alone, or the last to come, may be through at once. */
    const coll_status early = coll_red_op_destroy(op, comm);
    EXPECT(coll_wait(&request) == COLL_OK, "wait");
    EXPECT(x[0] == 2 * (float)coll_comm_count(comm), "%g", (double)x[0]);
    EXPECT((early == COLL_OK) == (coll_red_op_destroy(op, comm) != COLL_OK),
           "rank %d: destroyed twice or never", rank);
    return 0;
}

Test(red_op, handles_are_checked)
{
    cr_assert_eq(run_ranks(3, over_shm, handles), 0);
    cr_assert_eq(run_ranks(2, over_ucx, handles), 0);
}

/* An op of another communicator, of this very process. */
static int strangers(coll_comm *comm, int rank, int n)
{
    float x[4] = {0};
    coll_comm *other = NULL;
    coll_op op, mine;
    (void)rank, (void)n;
    coll_unique_id alone;
    EXPECT(coll_get_unique_id(&alone) == COLL_OK, "id");
    EXPECT(coll_comm_init_rank(&other, 1, alone, 0) == COLL_OK, "alone");
    EXPECT(coll_red_op_create(&op, larger, NULL, 1, other) == 0, "create");
    EXPECT(coll_red_op_create(&mine, larger, NULL, 1, comm) == 0, "create");
    EXPECT(op != mine, "same value");
    if (expect_invalid(coll_allreduce(x, x, 4, COLL_F32, op, comm, NULL),
                       "another communicator")
        || expect_invalid(coll_red_op_destroy(op, comm),
                          "another communicator"))
        return 1;
    coll_comm_destroy(other);
    return 0;
}

Test(red_op, one_of_another_communicator_is_refused)
{
    cr_assert_eq(run_ranks(2, over_shm, strangers), 0);
}

/* Two of the same kind are two. */
static int different(coll_comm *comm, int rank, int n)
{
    float x[4] = {0};
    coll_op ops[2];
    for (int i = 0; i < 2; i++)
        EXPECT(coll_red_op_create(&ops[i], larger, NULL, 1, comm) == 0,
               "create");
    const coll_status status =
        coll_allreduce(x, x, 4, COLL_F32, ops[rank == 1], comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    char mine[16];
    snprintf(mine, sizeof(mine), "user %d", rank);
    EXPECT(strstr(coll_last_error(comm), mine), "rank %d", rank);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(red_op, different_ones_are_a_mismatch)
{
    cr_assert_eq(run_ranks(2, over_shm, different), 0);
    cr_assert_eq(run_ranks(2, over_ucx, different), 0);
}
