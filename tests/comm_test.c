/* SPDX-License-Identifier: MIT */
/* Communicators of real processes: every algorithm, dtype and transport against
 * an oracle, and requests. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "coll/coll.h"
#include "coll/topo.h"
#include "ranks.h"
#include "thorough.h"

/* Sums are tried in place and not. The other operators read and write the same
 * elements, so the fast suite takes them one way at each count. */
static bool tries_op(enum kind kind, size_t i, size_t count, int in_place,
                     coll_op op)
{
    if (op == COLL_SUM)
        return true;
    if (op == COLL_PROD || op == COLL_MIN || kind == BROADCAST
        || (kind >= ALLGATHER && kind <= ALLTOALL)
        || (kind != ALLREDUCE && count >= 50000))
        return false;
    return thorough() || (i + op) % 2 == (size_t)in_place;
}

static int every_count(coll_comm *comm, enum kind kind)
{
    const size_t m = (size_t)coll_comm_count(comm);
    const size_t counts[] = {0, 1, m - 1, m, m + 1, 7, 1009, 50021, 300007};
    const int parts = kind >= REDUCE_SCATTER && kind <= ALLTOALL;
    /* The longest takes its time where ranks share processors. */
    const size_t ncounts =
        sizeof(counts) / sizeof(counts[0]) - (m > cases(3, 1));
    for (size_t i = 0; i < ncounts; i++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (coll_op op = COLL_SUM; op <= COLL_AVG; op++)
                if (tries_op(kind, i, counts[i], in_place, op)
                    && check_f32(comm, kind, parts ? counts[i] / 4 : counts[i],
                                 in_place, op))
                    return 1;
    return 0;
}

/* In a tree each root has others below each other, and the one whose subtree
 * goes on at rank 0 in another place. */
static int every_root(coll_comm *comm, enum kind kind)
{
    const int n = coll_comm_count(comm);
    for (int root = 0; root < n; root++) /* it follows from the count */
        for (int in_place = 0; in_place < 2; in_place++)
            if (check_f32(comm, kind, (size_t)(n + root), in_place, COLL_SUM))
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
        while (strcmp(call_names[kind], algo.collective))
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
        else if (every_count(comm, kind) || every_root(comm, kind)) {
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

Test(comm, every_collective_is_right_over_shared_memory, .timeout = 600)
{
    const int sizes[] = {2, 1, 5, 3, 4, 8};
    for (unsigned i = 0; i < cases(6, 1); i++)
        cr_assert_eq(run_ranks(sizes[i], over_shm, every_algorithm), 0,
                     "%d ranks", sizes[i]);
}

Test(comm, every_collective_is_right_over_ucx, .timeout = 600)
{
    const int sizes[] = {2, 3, 5};
    for (unsigned i = 0; i < cases(3, 1); i++)
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
               "%s, %s of %s: %d", call_names[kind], coll_op_name(op),
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
                kind == BARRIER
                    || ((kind == REDUCE || kind == GATHER) && rank != k % n)
                    || out[k][i]
                           == wanted(kind, rank, n, COUNT, i, COLL_SUM, k % n),
                "%s, %d, element %zu", call_names[kind], k, i);
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

static bool by_plans;

/* A ring has 2 (n - 1) of each rank, each with a chunk; memory in common needs
 * none. */
static int count_messages(coll_comm *comm, int rank, int n)
{
    enum { TIMES = 3, COUNT = 1000 };
    static float x[COUNT];
    uint64_t sums = 0, barriers = 0, all = 0;
    (void)rank;
    EXPECT(!by_plans || coll_comm_set_algorithm(comm, "ring") == COLL_OK,
           "rules");
    for (int i = 0; i < TIMES; i++)
        EXPECT(coll_allreduce(x, x, COUNT, COLL_F32, COLL_SUM, comm, NULL)
                   == COLL_OK,
               "allreduce");
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    EXPECT(coll_stats_messages(comm, "allreduce", &sums) == COLL_OK
               && coll_stats_messages(comm, "barrier", &barriers) == COLL_OK
               && coll_stats_messages(comm, NULL, &all) == COLL_OK,
           "stats");
    EXPECT(sums == (by_plans ? (uint64_t)(TIMES * 2 * (n - 1)) : 0),
           "%llu messages", (unsigned long long)sums);
    EXPECT((barriers > 0) == by_plans && all == sums + barriers,
           "%llu in barriers, %llu in all", (unsigned long long)barriers,
           (unsigned long long)all);
    REFUSED(coll_stats_messages(comm, "alreduce", &all), "allreduce");
    REFUSED(coll_stats_messages(comm, NULL, NULL), "messages is NULL");
    return 0;
}

Test(comm, messages_are_counted)
{
    by_plans = true;
    cr_assert_eq(run_ranks(3, over_ucx, count_messages), 0);
    by_plans = false;
    cr_assert_eq(run_ranks(3, over_shm, count_messages), 0);
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

/* Cores of their own, as far as there are any. */
static int own_cores(coll_comm *comm, int rank, int n)
{
    enum { MOST = 16 };
    const int usable = coll_topo_usable_cpus();
    const int nthreads = usable / n < MOST / n ? usable / n : MOST / n;
    int cpus[MOST] = {0}, all[MOST];
    if (nthreads && coll_comm_place_threads(comm, nthreads, cpus) == COLL_OK) {
        EXPECT(coll_allgather(cpus, all, (size_t)nthreads, COLL_I32, comm, NULL)
                   == COLL_OK,
               "allgather");
        for (int i = 0; i < n * nthreads; i++)
            for (int j = 0; j < i; j++)
                EXPECT(all[i] != all[j], "%d and %d on CPU %d", i, j, all[i]);
    } else { /* cores may be fewer than CPUs */
        EXPECT(!nthreads || n * nthreads > 1, "rank %d got no core", rank);
    }
    EXPECT(coll_comm_place_threads(comm, usable / n + 1, all)
               == COLL_ERR_UNSUPPORTED,
           "more threads than CPUs");
    EXPECT(strstr(coll_last_error(NULL), "more than the cores"), "%s",
           coll_last_error(NULL));
    EXPECT(coll_comm_place_threads(comm, 0, all) == COLL_ERR_INVALID, "none");
    return 0;
}

Test(comm, threads_of_all_ranks_get_cores_of_their_own)
{
    for (int n = 1; n <= 4; n++)
        cr_assert_eq(run_ranks(n, over_shm, own_cores), 0);
    int cpu;
    cr_assert_eq(coll_comm_place_threads(NULL, 1, &cpu), COLL_OK);
}

/* Rank 0 may use a part only of what the others may. */
static int overlapping(coll_comm *comm, int rank, int n)
{
    int cpu = -1;
    cpu_set_t set;
    coll_unique_id id;
    coll_comm *other;
    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    if (coll_topo_usable_cpus() < 2)
        return 0;
    if (rank == 0)
        EXPECT(!sched_setaffinity(0, sizeof(set), &set)
                   && !coll_get_unique_id(&id),
               "rank 0");
    EXPECT(!coll_broadcast(&id, &id, sizeof(id), COLL_U8, 0, comm, NULL), "id");
    EXPECT(!coll_comm_init_rank(&other, n, id, rank), "join");
    EXPECT(coll_comm_place_threads(other, 1, &cpu) == COLL_ERR_UNSUPPORTED,
           "rank %d may have CPU %d", rank, cpu);
    EXPECT(strstr(coll_last_error(NULL), "but not the same ones"), "%s",
           coll_last_error(NULL));
    EXPECT(!coll_comm_destroy(other), "destroy");
    return 0;
}

Test(comm, ranks_that_overlap_in_part_get_no_cores)
{
    cr_assert_eq(run_ranks(2, over_shm, overlapping), 0);
}

/* What is outstanding ends; then every rank may end as it likes, the one with
 * the hub first. */
static int finalizes(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 50000 };
    static float x[COUNT], sums[COUNT], late[COUNT];
    coll_request *request, *receive;
    coll_comm *other = NULL;
    coll_statistics stats;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(rank + i % 50);
    EXPECT(coll_allreduce(x, sums, COUNT, COLL_F32, COLL_SUM, comm, &request)
                   == COLL_OK
               && coll_recv(late, COUNT, COLL_F32, COLL_ANY_SOURCE, 7, comm,
                            NULL, &receive)
                      == COLL_OK,
           "calls");
    EXPECT(coll_comm_finalize(comm) == COLL_OK, "finalize");
    EXPECT(coll_wait(&request) == COLL_OK, "wait");
    for (int i = 0; i < COUNT; i++)
        EXPECT(sums[i] == (float)(n * (n - 1) / 2 + n * (i % 50)), "%d", i);
    REFUSED(coll_wait(&receive), "was finalized"); /* nobody will send */
    REFUSED(coll_barrier(comm, NULL), "was finalized");
    REFUSED(coll_send(x, 1, COLL_F32, 0, 0, comm, NULL), "was finalized");
    REFUSED(coll_comm_dup(comm, &other), "was finalized");
    REFUSED(coll_comm_finalize(comm), "was finalized");
    EXPECT(coll_comm_get_async_error(comm) == COLL_OK
               && coll_comm_count(comm) == n
               && coll_stats_of(comm, "allreduce", &stats) == COLL_OK
               && stats.operations == 1 && stats.failures == 0,
           "it has not failed");
    if (rank == 0) {
        EXPECT(coll_comm_destroy(comm) == COLL_OK, "destroy");
        mark_rank();
        _exit(0);
    }
    await_marks(1);
    return 0;
}

/* What was sent is received, where the sender has ended long since. */
static int finalizes_with_a_message(coll_comm *comm, int rank, int n)
{
    enum { BYTES = 100000 };
    static unsigned char x[BYTES];
    coll_request *request;
    (void)n;
    if (rank == 0) {
        memset(x, 7, BYTES);
        EXPECT(!coll_send(x, BYTES, COLL_U8, 1, 0, comm, &request), "send");
        usleep(30000); /* the other one sleeps in the meeting by then */
    } else {
        EXPECT(!coll_recv(x, BYTES, COLL_U8, 0, 0, comm, NULL, &request),
               "receive");
    }
    EXPECT(coll_comm_finalize(comm) == COLL_OK, "finalize");
    EXPECT(coll_wait(&request) == COLL_OK, "wait");
    for (int i = 0; i < BYTES; i++)
        EXPECT(x[i] == 7, "byte %d", i);
    EXPECT(!*coll_last_error(comm), "an error: %s", coll_last_error(comm));
    return 0;
}

/* Others may leave out the first of both. */
static int finalizes_alone(coll_comm *comm, int rank, int n)
{
    (void)n;
    if (rank)
        EXPECT(coll_comm_finalize(comm) == COLL_OK, "finalize");
    return 0;
}

/* A rank that goes on is told, and what is left then is destroy. */
static int finalizes_too_soon(coll_comm *comm, int rank, int n)
{
    const coll_status status =
        rank ? coll_comm_finalize(comm) : coll_barrier(comm, NULL);
    EXPECT(status == COLL_ERR_MISMATCH, "%d", status);
    EXPECT(coll_comm_get_async_error(comm) == COLL_ERR_MISMATCH, "async");
    mark_rank();
    if (rank == 0)
        await_marks(n);
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_MISMATCH, "destroy");
    _exit(0);
}

Test(comm, once_finalized_ranks_end_as_they_like)
{
    cr_assert_eq(run_ranks(3, over_shm, finalizes), 0);
    cr_assert_eq(run_ranks(3, over_ucx, finalizes), 0);
    static const char *const by_rings[] = {"COLL_TRANSPORT=shm",
                                           "COLL_SINGLE_COPY=off", NULL};
    for (int again = 0; again < 3; again++) {
        cr_assert_eq(run_ranks(2, by_rings, finalizes_with_a_message), 0);
        cr_assert_eq(run_ranks(2, over_ucx, finalizes_with_a_message), 0);
    }
    cr_assert_eq(run_ranks(1, over_shm, finalizes_alone), 0);
    cr_assert_eq(run_ranks(3, over_shm, finalizes_alone), 0);
    cr_assert_eq(run_ranks(2, over_shm, finalizes_too_soon), 0);
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
