/* SPDX-License-Identifier: MIT */
/* Persistent requests, on real processes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"

static coll_status init(enum kind kind, const void *in, void *out, size_t count,
                        int root, coll_comm *comm, coll_request **request)
{
    switch (kind) {
    case REDUCE:
        return coll_reduce_init(in, out, count, COLL_F32, COLL_SUM, root, comm,
                                request);
    case BROADCAST:
        return coll_broadcast_init(in, out, count, COLL_F32, root, comm,
                                   request);
    case REDUCE_SCATTER:
        return coll_reduce_scatter_init(in, out, count, COLL_F32, COLL_SUM,
                                        comm, request);
    case ALLGATHER:
        return coll_allgather_init(in, out, count, COLL_F32, comm, request);
    case GATHER:
        return coll_gather_init(in, out, count, COLL_F32, root, comm, request);
    case SCATTER:
        return coll_scatter_init(in, out, count, COLL_F32, root, comm, request);
    case ALLTOALL:
        return coll_alltoall_init(in, out, count, COLL_F32, comm, request);
    case BARRIER:
        return coll_barrier_init(comm, request);
    default:
        return coll_allreduce_init(in, out, count, COLL_F32, COLL_SUM, comm,
                                   request);
    }
}

enum { COUNT = 3000, MOST = 8 * COUNT, WARM = 2 };

static int is_right(enum kind kind, const float *out, int rank, int n, int root,
                    float more)
{
    const int sums =
        kind == ALLREDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
    const int at_root = kind == REDUCE || kind == GATHER;
    if (kind == BARRIER || (at_root && rank != root))
        return 1;
    for (size_t i = 0; i < COUNT; i++)
        if (out[i]
            != wanted(kind, rank, n, COUNT, i, COLL_SUM, root)
                   + more * (float)(sums ? n : 1))
            return 0;
    return 1;
}

/* One request of each kind, all under way at once, started again and again with
 * other contents; odd ranks make plain calls instead. */
static int again_and_again(coll_comm *comm, int rank, int n)
{
    static float in[NKINDS][MOST], out[NKINDS][MOST];
    coll_request *requests[NKINDS] = {NULL};
    const int keeps = rank % 2 == 0, root = n - 1;
    for (int k = 0; k < NKINDS && keeps; k++)
        EXPECT(
            init((enum kind)k, in[k], out[k], COUNT, root, comm, &requests[k])
                == COLL_OK,
            "init of %s", call_names[k]);
    EXPECT(!keeps || coll_wait_all(NKINDS, requests) == COLL_OK, "not started");
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < NKINDS; k++)
            for (size_t i = 0; i < (size_t)n * COUNT; i++)
                in[k][i] = value(rank, i) + (float)round;
        const int before = allocations;
        for (int k = 0; k < NKINDS; k++)
            EXPECT((keeps ? coll_start(requests[k])
                          : call((enum kind)k, in[k], out[k], COUNT, COLL_F32,
                                 COLL_SUM, root, comm, &requests[k]))
                       == COLL_OK,
                   "start of %s", call_names[k]);
        EXPECT(!keeps || round < WARM || allocations == before,
               "starts took memory %d times", allocations - before);
        EXPECT(!keeps || coll_start(requests[0]) == COLL_ERR_INVALID, "twice");
        EXPECT(!keeps || strstr(coll_last_error(NULL), "still under way"),
               "sentence");
        EXPECT(!keeps || coll_request_free(&requests[0]) == COLL_ERR_INVALID,
               "freed while it runs");
        for (int k = 0; k < NKINDS; k++) {
            coll_status status = COLL_IN_PROGRESS;
            while (k % 2 && (status = coll_test(&requests[k])) > 0)
                ;
            EXPECT((k % 2 ? status : coll_wait(&requests[k])) == COLL_OK, "%d",
                   k);
            EXPECT(!requests[k] == !keeps, "request %d", k);
            EXPECT(is_right((enum kind)k, out[k], rank, n, root, (float)round),
                   "%s, round %d", call_names[k], round);
        }
    }
    for (int k = 0; k < NKINDS; k++)
        EXPECT(coll_request_free(&requests[k]) == COLL_OK && !requests[k],
               "free");
    return 0;
}

/* No algorithm is tried late, as its first run takes memory. */
Test(persistent, requests_start_again_and_again)
{
    static const char *const shm[] = {"COLL_TRANSPORT=shm", "COLL_ADAPT=off",
                                      NULL};
    static const char *const ucx[] = {"COLL_TRANSPORT=ucx", "COLL_ADAPT=off",
                                      NULL};
    cr_assert_eq(run_ranks(3, shm, again_and_again), 0);
    cr_assert_eq(run_ranks(2, ucx, again_and_again), 0);
}

/* Hundreds under way, also of the same vector after another; ended in any way
 * that ends requests. */
static int many(coll_comm *comm, int rank, int n)
{
    enum { MANY = 300 };
    static double x[MANY];
    coll_request *requests[MANY];
    for (int k = 0; k < MANY; k++)
        EXPECT(coll_allreduce_init(&x[k], &x[k], 1, COLL_F64, COLL_SUM, comm,
                                   &requests[k])
                   == COLL_OK,
               "init %d", k);
    for (int round = 0; round < 3; round++) {
        int index = 0, ended = 0;
        for (int k = 0; k < MANY; k++)
            x[k] = rank + k;
        for (int k = 0; k < MANY; k++)
            EXPECT(coll_start(requests[k]) == COLL_OK, "start %d", k);
        while (round == 0 && ended < MANY) {
            EXPECT(coll_wait_any(MANY, requests, &index) == COLL_OK
                       && index >= 0,
                   "any");
            ended++;
        }
        EXPECT(round == 1 || coll_wait_all(MANY, requests) == COLL_OK, "all");
        while (round == 1 && coll_test_all(MANY, requests))
            ;
        EXPECT(coll_wait_any(MANY, requests, &index) == COLL_OK && index == -1,
               "index %d with nothing under way", index);
        for (int k = 0; k < MANY; k++)
            EXPECT(x[k] == n * (n - 1) / 2 + n * k, "%d: %g", k, x[k]);
    }
    for (int k = 0; k < MANY; k++)
        EXPECT(coll_request_free(&requests[k]) == COLL_OK, "free");
    return 0;
}

Test(persistent, many_are_under_way_at_once)
{
    cr_assert_eq(run_ranks(2, over_shm, many), 0);
    cr_assert_eq(run_ranks(2, over_ucx, many), 0);
}

/* Rules that come between two starts hold for the second. */
static int other_rules(coll_comm *comm, int rank, int n)
{
    float x[64] = {0}, y[64];
    coll_request *request;
    EXPECT(coll_allreduce_init(x, y, 64, COLL_F32, COLL_SUM, comm, &request)
               == COLL_OK,
           "init");
    static const char *const rules[] = {NULL, "ring", "recursive_doubling",
                                        NULL};
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0; i < 64; i++)
            x[i] = value(rank, i);
        EXPECT(coll_comm_set_algorithm(comm, rules[k]) == COLL_OK, "%d", k);
        EXPECT(coll_start(request) == COLL_OK, "start");
        EXPECT(coll_wait(&request) == COLL_OK, "wait");
        EXPECT(check_f32(comm, ALLREDUCE, 64, 0, COLL_SUM) == 0, "plain");
        for (size_t i = 0; i < 64; i++)
            EXPECT(y[i] == wanted(ALLREDUCE, rank, n, 64, i, COLL_SUM, 0),
                   "%zu", i);
    }
    return coll_request_free(&request);
}

Test(persistent, the_algorithm_is_chosen_at_each_start)
{
    cr_assert_eq(run_ranks(2, over_shm, other_rules), 0);
}

/* A failure of the communicator ends the request and leaves it to be freed. */
static int fails(coll_comm *comm, int rank, int n)
{
    float x[8] = {0};
    coll_request *request;
    (void)n;
    EXPECT(coll_allreduce_init(x, x, 8, COLL_F32, COLL_SUM, comm, &request)
               == COLL_OK,
           "init");
    EXPECT(rank || coll_start(request) == COLL_OK, "start");
    if (rank == 0)
        mark_rank();
    await_marks(1);
    if (rank)
        coll_comm_abort(comm);
    EXPECT(coll_wait(&request) == (rank ? COLL_OK : COLL_ERR_ABORTED), "wait");
    EXPECT(request && coll_start(request) == COLL_ERR_ABORTED, "again");
    EXPECT(coll_wait(&request) == COLL_OK, "it was not started");
    EXPECT(coll_request_free(&request) == COLL_OK, "free");
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_ABORTED, "destroy");
    mark_rank();
    await_marks(3);
    _Exit(0);
}

Test(persistent, a_failure_leaves_them_to_be_freed)
{
    cr_assert_eq(run_ranks(2, over_shm, fails), 0);
}

static int wrong(coll_comm *comm, int rank, int n)
{
    float x[8] = {0};
    coll_request *request = NULL, *plain;
    (void)rank, (void)n;
    EXPECT(coll_allreduce_init(NULL, x, 1, COLL_F32, COLL_SUM, comm, &request)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "send is NULL"),
           "send");
    EXPECT(coll_allreduce_init(x, x, 1, COLL_F32, COLL_SUM, NULL, &request)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "communicator is NULL"),
           "comm");
    EXPECT(coll_broadcast_init(x, x, 1, COLL_F32, 1, comm, &request)
               == COLL_ERR_INVALID,
           "root");
    EXPECT(coll_reduce_init(x, x, 1, COLL_F32, COLL_BAND, 0, comm, &request)
               == COLL_ERR_UNSUPPORTED,
           "op");
    EXPECT(coll_barrier_init(comm, NULL) == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "coll_barrier_init: request"),
           "request");
    EXPECT(!request, "set by a call that failed");
    EXPECT(coll_start(NULL) == COLL_ERR_INVALID, "start NULL");
    EXPECT(coll_request_free(NULL) == COLL_ERR_INVALID, "free NULL");
    EXPECT(coll_request_free(&request) == COLL_OK, "free nothing");
    EXPECT(coll_allreduce(x, x, 8, COLL_F32, COLL_SUM, comm, &plain) == COLL_OK,
           "plain");
    EXPECT(coll_start(plain) == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "is not persistent"),
           "start");
    EXPECT(coll_request_free(&plain) == COLL_ERR_INVALID && plain, "free");
    return coll_wait(&plain);
}

Test(persistent, wrong_arguments_are_refused)
{
    cr_assert_eq(run_ranks(1, NULL, wrong), 0);
}
