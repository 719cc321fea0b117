/* SPDX-License-Identifier: MIT */
/* Communicators of real processes and threads: every algorithm, dtype and
 * transport against an oracle, and what happens when a rank does wrong. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "ranks.h"
#include "thorough.h"

static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Element i of rank r; sums over 16 ranks stay exact in an f32. */
static float value(int r, size_t i)
{
    return (float)((i * 7 + (size_t)r * 3) % 11) - 3;
}

enum kind {
    ALLREDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALLGATHER,
    BARRIER,
    NKINDS
};
static const char *const kind_names[NKINDS] = {
    "allreduce",      "reduce",    "broadcast",
    "reduce_scatter", "allgather", "barrier",
};

/* Any of the calls, on elements of any type. */
static coll_status call(enum kind kind, const void *in, void *out, size_t count,
                        coll_dtype dtype, coll_op op, int root, coll_comm *comm,
                        coll_request **request)
{
    switch (kind) {
    case REDUCE:
        return coll_reduce(in, out, count, dtype, op, root, comm, request);
    case BROADCAST:
        return coll_broadcast(in, out, count, dtype, root, comm, request);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, out, count, dtype, op, comm, request);
    case ALLGATHER:
        return coll_allgather(in, out, count, dtype, comm, request);
    case BARRIER:
        return coll_barrier(comm, request);
    default:
        return coll_allreduce(in, out, count, dtype, op, comm, request);
    }
}

static float combined(int n, size_t i, coll_op op)
{
    float x = value(0, i);
    for (int r = 1; r < n; r++) {
        const float v = value(r, i);
        x = op == COLL_MAX ? (v > x ? v : x) : x + v;
    }
    return op == COLL_AVG ? x / (float)n : x;
}

/* Element i of rank's result. */
static float wanted(enum kind kind, int rank, int n, size_t count, size_t i,
                    coll_op op, int root)
{
    switch (kind) {
    case BROADCAST:
        return value(root, i);
    case REDUCE_SCATTER:
        return combined(n, (size_t)rank * count + i, op);
    case ALLGATHER:
        return value((int)(i / count), i % count);
    default:
        return combined(n, i, op);
    }
}

static int check_f32(coll_comm *comm, enum kind kind, size_t count,
                     int in_place, coll_op op)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const int root = (int)(count % (size_t)n);
    const size_t m = (size_t)n, mine = (size_t)rank * count;
    const size_t ins = kind == REDUCE_SCATTER ? m * count : count;
    const size_t outs = kind == ALLGATHER ? m * count : count;
    const int gets = kind != REDUCE || rank == root;
    float *in = malloc((m * count + 1) * sizeof(float)), *give = in;
    float *out = in_place ? in : malloc((m * count + 1) * sizeof(float));
    float *own_out = out;
    if (in_place && kind == REDUCE_SCATTER)
        out += mine;
    if (in_place && kind == ALLGATHER)
        give += mine;
    for (size_t i = 0; i < outs; i++)
        out[i] = 55;
    in[m * count] = own_out[m * count] = 99;
    for (size_t i = 0; i < ins; i++)
        give[i] = value(rank, i);
    EXPECT(call(kind, kind == BROADCAST && rank != root ? NULL : give,
                gets ? out : NULL, count, COLL_F32, op, root, comm, NULL)
               == COLL_OK,
           "%s, count %zu", kind_names[kind], count);
    for (size_t i = 0; i < outs && gets; i++)
        EXPECT(out[i] == wanted(kind, rank, n, count, i, op, root),
               "%s of %s, count %zu, root %d, rank %d, element %zu: %g",
               kind_names[kind], coll_op_name(op), count, root, rank, i,
               (double)out[i]);
    for (size_t i = 0; i < ins && !in_place; i++)
        EXPECT(in[i] == value(rank, i), "%s: input written", kind_names[kind]);
    EXPECT(in[m * count] == 99 && own_out[m * count] == 99,
           "%s: written past the end", kind_names[kind]);
    free(in);
    if (!in_place)
        free(own_out);
    return 0;
}

/* Sums do not tell whether they are in place. The other operators work on
 * vectors as sums do, so the fast suite takes each count one way. */
static bool tries_op(enum kind kind, size_t i, size_t count, int in_place,
                     coll_op op)
{
    if (op == COLL_SUM)
        return true;
    if (op == COLL_PROD || op == COLL_MIN || kind == BROADCAST
        || kind == ALLGATHER || (kind != ALLREDUCE && count >= 50000))
        return false;
    return thorough() || (i + op) % 2 == (size_t)in_place;
}

static int every_count(coll_comm *comm, enum kind kind)
{
    const size_t m = (size_t)coll_comm_count(comm);
    const size_t counts[] = {0, 1, m - 1, m, m + 1, 7, 1009, 50021, 300007};
    const int parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    /* The longest takes its time where ranks share processors. */
    const size_t ncounts = sizeof(counts) / sizeof(counts[0]) - (m > 3);
    for (size_t i = 0; i < ncounts; i++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (coll_op op = COLL_SUM; op <= COLL_AVG; op++)
                if (tries_op(kind, i, counts[i], in_place, op)
                    && check_f32(comm, kind, parts ? counts[i] / 4 : counts[i],
                                 in_place, op))
                    return 1;
    return 0;
}

static int every_algorithm(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    (void)rank;
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        char rules[96];
        enum kind kind = ALLREDUCE;
        while (strcmp(kind_names[kind], algo.collective))
            kind++;
        const int node = !strncmp(algo.name, "node_", 5);
        if (node && (n == 1 || !strcmp(getenv("COLL_TRANSPORT"), "ucx")))
            continue;
        /* That one is for short vectors only. */
        snprintf(rules, sizeof(rules), "%s:%s%s", algo.collective,
                 !strcmp(algo.name, "node_inline") ? "0-8193:" : "", algo.name);
        EXPECT(coll_comm_set_algorithm(comm, rules) == COLL_OK, "%s", rules);
        if (kind == BARRIER)
            EXPECT(coll_barrier(comm, NULL) == COLL_OK, "%s", rules);
        else if (every_count(comm, kind)) {
            fprintf(stderr, "with %s\n", rules);
            return 1;
        }
    }
    /* And each as the library chooses. */
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "reset");
    for (enum kind kind = ALLREDUCE; kind < BARRIER; kind++)
        if (every_count(comm, kind))
            return 1;
    return 0;
}

Test(comm, every_collective_is_right_over_shared_memory, .timeout = 110)
{
    const int sizes[] = {1, 2, 3, 5, 4, 8};
    for (unsigned i = 0; i < cases(6, 4); i++)
        cr_assert_eq(run_ranks(sizes[i], over_shm, every_algorithm), 0,
                     "%d ranks", sizes[i]);
}

Test(comm, every_collective_is_right_over_ucx, .timeout = 110)
{
    const int sizes[] = {2, 3, 5};
    for (unsigned i = 0; i < cases(3, 2); i++)
        cr_assert_eq(run_ranks(sizes[i], over_ucx, every_algorithm), 0,
                     "%d ranks", sizes[i]);
}

/* Every pair of dtype and op either works or says that it is not defined. */
static int every_op(coll_comm *comm, enum kind kind, coll_dtype dtype)
{
    for (coll_op op = COLL_SUM; op <= COLL_LOR; op++) {
        const int no = dtype >= COLL_F16 && op >= COLL_BAND;
        unsigned char in[128] = {0}, out[64] = {0};
        const coll_status status =
            call(kind, in, out, 8, dtype, op, 1, comm, NULL);
        EXPECT(status == (no ? COLL_ERR_UNSUPPORTED : COLL_OK),
               "%s, %s of %s: %d", kind_names[kind], coll_op_name(op),
               coll_dtype_name(dtype), status);
    }
    return 0;
}

/* Bytes that mean nothing to the library, moved as they are. */
static int moves(coll_comm *comm, coll_dtype dtype)
{
    const int rank = coll_comm_user_rank(comm);
    const size_t bytes = 5 * coll_dtype_bytes(dtype);
    unsigned char in[40], out[80], all[80];
    for (int i = 0; i < 40; i++)
        in[i] = (unsigned char)(17 * i + 100 * rank);
    for (int i = 0; i < 80; i++)
        all[i] = 0;
    EXPECT(coll_allgather(in, all, 5, dtype, comm, NULL) == COLL_OK, "all");
    for (int root = 0; root < 2; root++) {
        EXPECT(coll_broadcast(in, out, 5, dtype, root, comm, NULL) == COLL_OK,
               "root %d", root);
        EXPECT(!memcmp(out, all + (size_t)root * bytes, bytes), "%s, root %d",
               coll_dtype_name(dtype), root);
    }
    EXPECT(!memcmp(all + (size_t)rank * bytes, in, bytes), "%s",
           coll_dtype_name(dtype));
    return 0;
}

static int every_dtype(coll_comm *comm, int rank, int n)
{
    for (coll_dtype d = COLL_I8; d <= COLL_F8E5M2; d++)
        if (every_op(comm, ALLREDUCE, d) || every_op(comm, REDUCE, d)
            || every_op(comm, REDUCE_SCATTER, d) || moves(comm, d))
            return 1;
    int64_t x[2] = {5, 6 + rank}, y = 0;
    EXPECT(coll_allreduce(x, &y, 1, COLL_I64, COLL_SUM, comm, NULL) == 0,
           "i64");
    EXPECT(y == 5 * n, "%ld", (long)y);
    /* (6 + 0 + 6 + 1) / 2, towards zero, at rank 1. */
    EXPECT(coll_reduce_scatter(x, &y, 1, COLL_I64, COLL_AVG, comm, NULL) == 0,
           "i64");
    EXPECT(y == (rank ? 6 : 5), "%ld", (long)y);
    return 0;
}

Test(comm, every_dtype_and_op_works_or_says_no)
{
    cr_assert_eq(run_ranks(2, over_shm, every_dtype), 0);
}

static int many_requests(coll_comm *comm, int rank, int n)
{
    enum { REQUESTS = 20, COUNT = 5000 };
    static double in[REQUESTS][COUNT], out[REQUESTS][COUNT];
    coll_request *requests[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            in[k][i] = rank + k + i;
        EXPECT(coll_allreduce(in[k], out[k], COUNT, COLL_F64, COLL_SUM, comm,
                              &requests[k])
                   == COLL_OK,
               "request %d", k);
    }
    /* The last is waited for first; the others are polled. */
    EXPECT(coll_wait(&requests[REQUESTS - 1]) == COLL_OK, "wait");
    EXPECT(requests[REQUESTS - 1] == NULL, "not cleared");
    for (int k = 0; k < REQUESTS - 1; k++) {
        coll_status status;
        while ((status = coll_test(&requests[k])) == COLL_IN_PROGRESS)
            ;
        EXPECT(status == COLL_OK, "test %d", k);
    }
    for (int k = 0; k < REQUESTS; k++)
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[k][i] == n * (n - 1) / 2 + n * (k + i), "%d %d", k, i);
    return 0;
}

Test(comm, many_requests_run_in_order)
{
    cr_assert_eq(run_ranks(3, over_shm, many_requests), 0);
    cr_assert_eq(run_ranks(2, over_ucx, many_requests), 0);
}

/* All kinds in flight at once, in an order of their own, each in memory of its
 * own; some from the middle of the queue are waited for first. */
static int mixed_requests(coll_comm *comm, int rank, int n)
{
    enum { ROUNDS = 12, COUNT = 600, MANY = ROUNDS * NKINDS };
    static float in[MANY][8 * COUNT], out[MANY][8 * COUNT];
    coll_request *requests[MANY];
    coll_statistics before, after;
    EXPECT(coll_stats(comm, &before) == COLL_OK, "stats");
    for (int k = 0; k < MANY; k++) {
        const enum kind kind = (enum kind)(k * 5 % NKINDS);
        for (size_t i = 0; i < 8 * COUNT; i++)
            in[k][i] = value(rank, i);
        EXPECT(call(kind, in[k], out[k], COUNT, COLL_F32, COLL_SUM, k % n, comm,
                    &requests[k])
                   == COLL_OK,
               "request %d", k);
    }
    for (int k = 0; k < MANY; k++) {
        const int j = (k + MANY / 2) % MANY;
        coll_status status = COLL_IN_PROGRESS;
        while (k % 3 && (status = coll_test(&requests[j])) == COLL_IN_PROGRESS)
            ;
        EXPECT((k % 3 ? status : coll_wait(&requests[j])) == COLL_OK, "%d", j);
    }
    for (int k = 0; k < MANY; k++) {
        const enum kind kind = (enum kind)(k * 5 % NKINDS);
        for (size_t i = 0; i < COUNT; i++)
            EXPECT(
                kind == BARRIER || (kind == REDUCE && rank != k % n)
                    || out[k][i]
                           == wanted(kind, rank, n, COUNT, i, COLL_SUM, k % n),
                "%s, %d, element %zu", kind_names[kind], k, i);
    }
    EXPECT(coll_stats(comm, &after) == COLL_OK, "stats");
    EXPECT(after.operations - before.operations == MANY, "operations");
    EXPECT(after.bytes_read - before.bytes_read
               >= COUNT * sizeof(float) * MANY / 2,
           "read");
    return 0;
}

Test(comm, requests_of_all_kinds_run_in_order)
{
    cr_assert_eq(run_ranks(4, over_shm, mixed_requests), 0);
    cr_assert_eq(run_ranks(3, over_ucx, mixed_requests), 0);
}

/* Nobody is through before the last has come, which sets the clock. */
static int late_ones(coll_comm *comm, int rank, int n)
{
    for (int late = 0; late < n; late++) {
        double came[8];
        if (rank == late)
            usleep(20000);
        const double mine = now();
        EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
        const double left = now();
        EXPECT(coll_allgather(&mine, came, 1, COLL_F64, comm, NULL) == COLL_OK,
               "allgather");
        for (int r = 0; r < n; r++)
            EXPECT(left >= came[r], "rank %d left before %d came", rank, r);
    }
    return 0;
}

Test(comm, a_barrier_waits_for_the_last)
{
    cr_assert_eq(run_ranks(5, over_shm, late_ones), 0);
    cr_assert_eq(run_ranks(3, over_ucx, late_ones), 0);
}

#define REFUSED(call, words)                                                   \
    EXPECT((call) == COLL_ERR_INVALID && strstr(coll_last_error(NULL), words), \
           "not refused with \"%s\"", words)

static int wrong_roots_and_vectors(coll_comm *comm, int rank, int n)
{
    const size_t lots = SIZE_MAX / 2 / sizeof(float) / (size_t)n + 1;
    float x[8] = {0};
    REFUSED(coll_reduce(x, x, 1, COLL_F32, COLL_SUM, n, comm, NULL),
            "coll_reduce: root 2 is no rank of 2");
    REFUSED(coll_broadcast(x, x, 1, COLL_F32, -1, comm, NULL),
            "coll_broadcast: root -1");
    REFUSED(coll_broadcast(rank ? x : NULL, rank ? NULL : x, 1, COLL_F32, 0,
                           comm, NULL),
            rank ? "coll_broadcast: recv is NULL" : "coll_broadcast: send is");
    REFUSED(coll_reduce(rank ? NULL : x, rank ? x : NULL, 1, COLL_F32, COLL_SUM,
                        0, comm, NULL),
            rank ? "coll_reduce: send is NULL" : "coll_reduce: recv is NULL");
    REFUSED(
        coll_reduce_scatter(x, x + !rank, 1, COLL_F32, COLL_SUM, comm, NULL),
        "coll_reduce_scatter: send and recv overlap without recv being");
    REFUSED(coll_allgather(x + !rank, x, 1, COLL_F32, comm, NULL),
            "coll_allgather: send and recv overlap without send being");
    REFUSED(coll_allgather(x, x + 4, lots, COLL_F32, comm, NULL),
            "for each rank");
    REFUSED(coll_reduce_scatter(x, x + 4, 1, COLL_F32, (coll_op)99, comm, NULL),
            "99 is no coll_op");
    REFUSED(coll_barrier(NULL, NULL), "coll_barrier: the communicator is NULL");
    REFUSED(coll_stats(comm, NULL), "stats is NULL");
    return 0;
}

static int wrong_arguments(coll_comm *comm, int rank, int n)
{
    (void)rank, (void)n;
    float x[10] = {0};
    EXPECT(coll_allreduce(NULL, x, 1, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "NULL");
    EXPECT(strstr(coll_last_error(NULL), "send is NULL"), "sentence");
    EXPECT(coll_allreduce(x, x + 1, 4, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "overlap");
    EXPECT(coll_allreduce(x, x, 1, (coll_dtype)77, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "dtype");
    EXPECT(coll_allreduce(x, x, 1, COLL_F32, (coll_op)-1, comm, NULL)
               == COLL_ERR_INVALID,
           "op");
    EXPECT(coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, NULL, NULL)
               == COLL_ERR_INVALID,
           "comm");
    EXPECT(coll_allreduce(x, x, SIZE_MAX / 2, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "size");
    if (wrong_roots_and_vectors(comm, rank, n))
        return 1;
    EXPECT(coll_comm_set_algorithm(comm, "rign") == COLL_ERR_INVALID, "algo");
    EXPECT(strstr(coll_last_error(NULL), "did you mean ring?"), "nearest");
    EXPECT(strstr(coll_last_error(NULL), "recursive_doubling"), "list");
    /* None of this harmed the communicator. */
    if (check_f32(comm, ALLREDUCE, 10, 0, COLL_SUM))
        return 1;
    /* Rules hold from the next call on, also for one like the last. */
    EXPECT(coll_comm_set_algorithm(comm, "ring;^ring") == COLL_OK, "rules");
    EXPECT(coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_ERR_UNSUPPORTED,
           "no algorithm is left");
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "rules");
    return check_f32(comm, ALLREDUCE, 10, 0, COLL_SUM);
}

Test(comm, wrong_arguments_are_refused_and_do_no_harm)
{
    cr_assert_eq(run_ranks(2, over_shm, wrong_arguments), 0);
}

static int one_aborts(coll_comm *comm, int rank, int n)
{
    float x[100] = {0};
    (void)n;
    /* All have joined once rank 1 is through; others may be still inside. */
    coll_status status =
        coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == 1) {
        coll_comm_abort(comm);
        _exit(0);
    }
    const double start = now();
    if (status == COLL_OK)
        status = coll_allreduce(x, x, 100, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_ABORTED, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    EXPECT(now() - start < 2, "late");
    EXPECT(coll_comm_get_async_error(comm) == COLL_ERR_ABORTED, "async");
    coll_comm_destroy(comm);
    _exit(0);
}

static int one_is_killed(coll_comm *comm, int rank, int n)
{
    static float x[1 << 20];
    (void)n;
    coll_status status =
        coll_allreduce(x, x, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == 1) {
        usleep(20000); /* the others are inside by then, or will be */
        kill(getpid(), SIGKILL);
    }
    const double start = now();
    while (status == COLL_OK && now() - start < 10)
        status = coll_allreduce(x, x, 1 << 20, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_PEER, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    EXPECT(now() - start < 3, "late: %g s", now() - start);
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_PEER, "destroy");
    _exit(0);
}

Test(comm, abort_wakes_the_others_and_names_the_rank)
{
    cr_assert_eq(run_ranks(3, over_shm, one_aborts), 0);
    cr_assert_eq(run_ranks(2, over_ucx, one_aborts), 0);
}

Test(comm, a_killed_rank_is_named_to_all)
{
    cr_assert_eq(run_ranks(4, over_shm, one_is_killed), 1); /* itself */
    cr_assert_eq(run_ranks(3, over_ucx, one_is_killed), 1);
}

static int different_calls(coll_comm *comm, int rank, int n)
{
    float x[100] = {0};
    (void)n;
    const coll_status status =
        coll_allreduce(x, x, rank ? 100 : 99, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    const char *why = coll_last_error(comm);
    EXPECT(strstr(why, rank ? "rank 1 called allreduce of 100 f32, sum"
                            : "rank 0 called allreduce of 99 f32, sum"),
           "%s", why);
    /* Between hosts only who hears of it knows the other's. */
    const int one_host = !strcmp(getenv("COLL_TRANSPORT"), "shm");
    EXPECT(!one_host || strstr(why, rank ? " 99 f32" : " 100 f32"), "%s",
           why);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, different_calls_are_an_error_on_every_rank)
{
    cr_assert_eq(run_ranks(2, over_shm, different_calls), 0);
    cr_assert_eq(run_ranks(2, over_ucx, different_calls), 0);
}

/* Rank 0 makes the first call of a pair, the others the second. Where no rank
 * waits for a message of the other call it is seen in the next one. (Ranks that
 * wait for messages which nobody sends get COLL_ERR_TIMEOUT instead.) */
static const struct {
    enum kind kind;
    int root, at_once; /* at once: by rank 1 of 3 */
} pairs[][2] = {
    {{ALLREDUCE, 0, 0},      {REDUCE, 0, 0}   },
    {{BROADCAST, 0, 0},      {BROADCAST, 1, 0}},
    {{BROADCAST, 0, 0},      {BROADCAST, 2, 1}},
    {{REDUCE_SCATTER, 0, 0}, {ALLGATHER, 0, 1}},
    {{BROADCAST, 0, 0},      {BARRIER, 0, 1}  },
};
static int pair;

static int different_kinds(coll_comm *comm, int rank, int n)
{
    static float x[100], y[200];
    const enum kind kind = pairs[pair][rank > 0].kind;
    EXPECT(coll_comm_set_algorithm(comm, "broadcast:chain") == COLL_OK, "rule");
    /* Who is slow to leave it may hear already of what others found next. */
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK)
        status = call(kind, x, y, 25, COLL_F32, COLL_SUM,
                      pairs[pair][rank > 0].root, comm, NULL);
    if (status == COLL_OK
        && !(pairs[pair][rank > 0].at_once && rank == 1 && n == 3))
        status = coll_barrier(comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "pair %d, %s: %d", pair,
           kind_names[kind], status);
    if (rank == 0)
        usleep(300000); /* the news go through its process */
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, different_kinds_and_roots_are_an_error_on_every_rank)
{
    for (pair = 0; pair < (int)(sizeof(pairs) / sizeof(pairs[0])); pair++)
        for (int n = pairs[pair][1].root == 2 ? 3 : 2; n <= 3; n++)
            cr_assert_eq(
                run_ranks(n, n == 2 ? over_ucx : over_shm, different_kinds), 0,
                "pair %d, %d ranks", pair, n);
}

static int too_slow(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    (void)n;
    if (rank == 1)
        sleep(2);
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=0.5", NULL};
    cr_assert_eq(run_ranks(2, settings, too_slow), 0);
}

/* Rank 1 comes late; rank 0 asks all the time, or not while it waits. */
static int late_ms, asks;

static int one_is_late(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    coll_request *request = NULL;
    (void)n;
    if (rank == 1)
        usleep((useconds_t)late_ms * 1000);
    coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, &request);
    for (long i = 0; request; i++) {
        status = coll_test(&request);
        if (i == 0 && rank == 0 && !asks)
            usleep((useconds_t)late_ms * 1000);
    }
    EXPECT(status == (asks ? COLL_ERR_TIMEOUT : COLL_OK), "%d", status);
    EXPECT(!asks || strstr(coll_last_error(comm), "within 0.5 s"), "%s",
           coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm, who_asks_in_vain_is_told_at_the_deadline)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=0.5", NULL};
    late_ms = 2000;
    asks = 1;
    cr_assert_eq(run_ranks(2, settings, one_is_late), 0);
}

Test(comm, who_does_not_ask_has_not_waited)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=1", NULL};
    late_ms = 1200;
    asks = 0;
    cr_assert_eq(run_ranks(2, settings, one_is_late), 0);
}

Test(comm, one_rank_alone_needs_nobody)
{
    unsetenv("COLL_RANK");
    cr_assert_eq(run_ranks(1, NULL, every_algorithm), 0);
    coll_comm *comm;
    cr_assert_eq(coll_comm_init(&comm), COLL_OK);
    cr_assert_eq(coll_comm_count(comm), 1);
    cr_assert_eq(coll_comm_user_rank(comm), 0);
    cr_assert_eq(coll_comm_destroy(comm), COLL_OK);
    cr_assert_eq(coll_comm_destroy(NULL), COLL_OK);
}
