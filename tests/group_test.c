/* SPDX-License-Identifier: MIT */
/* coll_group_start() and coll_group_end() among real processes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "ranks.h"

static uint64_t operations(coll_comm *comm)
{
    coll_statistics stats;
    coll_stats(comm, &stats);
    return stats.operations;
}

/* Round the ring, with long vectors and without requests. */
static int ring(coll_comm *comm, int rank, int n)
{
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;
    for (size_t count = 0; count < 3000000; count = 13 * count + 1) {
        int *out = malloc((count + 1) * sizeof(int));
        int *in = calloc(count + 1, sizeof(int));
        for (size_t i = 0; i < count; i++)
            out[i] = rank + (int)i;
        EXPECT(coll_group_start() == COLL_OK, "start");
        EXPECT(coll_send(out, count, COLL_I32, right, 0, comm, NULL) == COLL_OK,
               "send");
        EXPECT(coll_recv(in, count, COLL_I32, left, 0, comm, NULL, NULL)
                   == COLL_OK,
               "receive");
        EXPECT(coll_group_end() == COLL_OK, "end");
        for (size_t i = 0; i < count; i++)
            EXPECT(in[i] == left + (int)i, "count %zu, element %zu", count, i);
        free(out);
        free(in);
    }
    return 0;
}

/* All to all, each rank in an order of its own, between sums. */
static int everything(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 30000 };
    int *out = malloc(COUNT * sizeof(int)), sums[2] = {1, 2};
    int *in = calloc((size_t)n * COUNT, sizeof(int));
    for (int i = 0; i < COUNT; i++)
        out[i] = rank * 7 + i;
    const uint64_t before = operations(comm);
    coll_group_start();
    for (int i = 0; i < n; i++) {
        const int peer = (rank + i) % n;
        coll_send(out, COUNT, COLL_I32, peer, 1, comm, NULL);
        if (i == rank)
            coll_allreduce(&sums[0], &sums[0], 1, COLL_I32, COLL_SUM, comm,
                           NULL);
        coll_recv(in + peer * COUNT, COUNT, COLL_I32, peer, 1, comm, NULL,
                  NULL);
    }
    coll_allreduce(&sums[1], &sums[1], 1, COLL_I32, COLL_SUM, comm, NULL);
    EXPECT(coll_group_end() == COLL_OK, "end");
    for (int r = 0; r < n; r++)
        for (int i = 0; i < COUNT; i++)
            EXPECT(in[r * COUNT + i] == r * 7 + i, "element %d of %d", i, r);
    EXPECT(sums[0] == n && sums[1] == 2 * n, "sums %d, %d", sums[0], sums[1]);
    EXPECT(operations(comm) == before + 1, "%d messages for two sums",
           (int)(operations(comm) - before));
    free(out);
    free(in);
    return 0;
}

Test(group, sends_and_receives_in_any_order_finish)
{
    cr_expect_eq(run_ranks(2, over_shm, ring), 0);
    cr_expect_eq(run_ranks(5, over_shm, ring), 0);
    cr_expect_eq(run_ranks(3, over_ucx, ring), 0);
    cr_expect_eq(run_ranks(4, over_shm, everything), 0);
    cr_expect_eq(run_ranks(3, over_ucx, everything), 0);
}

enum { SUMS = 100 };

/* Sums of 0 to 9 elements, every other in place, some with requests. */
static int many_sums(coll_comm *comm, int rank, int n)
{
    float in[SUMS][10], out[SUMS][10];
    coll_request *requests[SUMS] = {NULL};
    for (int k = 0; k < SUMS; k++)
        for (int i = 0; i < 10; i++)
            in[k][i] = out[k][i] = value(rank, (size_t)(k + i));
    const uint64_t before = operations(comm);
    EXPECT(coll_group_start() == COLL_OK, "start");
    for (int k = 0; k < SUMS; k++)
        EXPECT(coll_allreduce(k % 2 ? out[k] : in[k], out[k], (size_t)k % 10,
                              COLL_F32, COLL_SUM, comm,
                              k % 3 ? &requests[k] : NULL)
                   == COLL_OK,
               "sum %d", k);
    EXPECT(coll_wait(&requests[1]) == COLL_ERR_INVALID && requests[1],
           "waited for what has not begun");
    EXPECT(coll_group_end() == COLL_OK, "end");
    for (int k = SUMS - 1; k >= 0; k--) {
        EXPECT(coll_wait(&requests[k]) == COLL_OK, "wait %d", k);
        for (int i = 0; i < 10; i++) {
            float sum = out[k][i];
            for (int r = 0; r < n && i < k % 10; r++)
                sum -= value(r, (size_t)(k + i));
            EXPECT(i < k % 10 ? sum == 0 : out[k][i] == in[k][i],
                   "sum %d, element %d", k, i);
        }
    }
    EXPECT(operations(comm) == before + 1, "%d messages",
           (int)(operations(comm) - before));
    return 0;
}

static int what_does_not_fuse(coll_comm *comm, int rank, int n)
{
    enum { LONG = 20000 };
    static float x[4][LONG];
    int a = rank, b = 1;
    const uint64_t before = operations(comm);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < LONG; i++)
            x[k][i] = value(rank, (size_t)i);
    coll_group_start();
    coll_group_start(); /* nested */
    coll_allreduce(&a, &a, 1, COLL_I32, COLL_MAX, comm, NULL);
    EXPECT(coll_group_end() == COLL_OK && a == rank, "the inner end waits");
    coll_allreduce(&b, &b, 1, COLL_I32, COLL_SUM, comm, NULL);
    for (int k = 0; k < 3; k++) /* too long for two in one */
        coll_allreduce(x[k], x[k], 12000, COLL_F32, COLL_SUM, comm, NULL);
    coll_allreduce(x[3], x[3], LONG, COLL_F32, COLL_SUM, comm, NULL);
    coll_barrier(comm, NULL);
    EXPECT(coll_group_end() == COLL_OK, "end");
    EXPECT(a == n - 1 && b == n, "%d, %d", a, b);
    for (int k = 0; k < 4; k++)
        for (size_t i = 0; i < 12000; i++)
            EXPECT(x[k][i] == wanted(ALLREDUCE, rank, n, LONG, i, COLL_SUM, 0),
                   "sum %d, element %zu", k, i);
    EXPECT(operations(comm) == before + 7, "%d messages",
           (int)(operations(comm) - before));
    return 0;
}

Test(group, short_sums_become_one_message)
{
    cr_expect_eq(run_ranks(2, over_shm, many_sums), 0);
    cr_expect_eq(run_ranks(3, over_ucx, many_sums), 0);
    cr_expect_eq(run_ranks(3, over_shm, what_does_not_fuse), 0);
}

static int errors(coll_comm *comm, int rank, int n)
{
    int x = 1;
    (void)rank;
    coll_request *kept, *late;
    EXPECT(coll_allreduce_init(&x, &x, 1, COLL_I32, COLL_SUM, comm, &kept)
               == COLL_OK,
           "init");
    EXPECT(coll_group_end() == COLL_ERR_INVALID, "no group was started");
    coll_group_start();
    EXPECT(coll_start(kept) == COLL_ERR_INVALID, "started in a group");
    EXPECT(coll_barrier(comm, &late) == COLL_OK, "barrier");
    EXPECT(coll_wait_all(1, &late) == COLL_ERR_INVALID
               && coll_test(&late) == COLL_ERR_INVALID,
           "waited for what has not begun");
    EXPECT(coll_group_end() == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "coll_start"),
           "%s", coll_last_error(NULL));
    EXPECT(coll_wait(&late) == COLL_OK, "wait");
    EXPECT(coll_request_free(&kept) == COLL_OK, "free");
    coll_group_start();
    EXPECT(coll_allreduce(NULL, &x, 1, COLL_I32, COLL_SUM, comm, NULL)
               == COLL_ERR_INVALID,
           "NULL");
    EXPECT(coll_send(&x, 1, COLL_I32, n, 0, comm, NULL) == COLL_ERR_INVALID,
           "no rank");
    EXPECT(coll_allreduce(&x, &x, 1, COLL_I32, COLL_SUM, comm, NULL) == COLL_OK,
           "sum");
    EXPECT(coll_group_end() == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "coll_allreduce: send is NULL"),
           "%s", coll_last_error(NULL));
    EXPECT(x == n, "the sum is %d", x);
    coll_group_start();
    EXPECT(coll_group_end() == COLL_OK, "an error stays");
    return 0;
}

static void add(void *out, const void *a, const void *b, size_t count,
                coll_dtype dtype, void *context)
{
    const int *x = a, *y = b;
    int *to = out;
    (void)dtype, (void)context;
    for (size_t i = 0; i < count; i++)
        to[i] = x[i] + y[i];
}

/* Parts of any length keep their lengths; sums of a function do not fuse. */
static int other_calls(coll_comm *comm, int rank, int n)
{
    size_t counts[8];
    int mine[8], all[64] = {0}, sums[2] = {1, 2}, at = 0;
    coll_op op;
    coll_request *request;
    EXPECT(coll_red_op_create(&op, add, NULL, 1, comm) == COLL_OK, "op");
    const uint64_t before = operations(comm);
    coll_group_start();
    for (int round = 0; round < 2; round++) {
        for (int r = 0; r < n; r++)
            counts[r] = (size_t)(round ? n - r : r + 1);
        for (size_t i = 0; i < 8; i++)
            mine[i] = rank;
        EXPECT(coll_allgather_v(mine, all + 32 * round, counts, NULL, COLL_I32,
                                comm, round ? &request : NULL)
                   == COLL_OK,
               "v-call");
    }
    for (int i = 0; i < 2; i++)
        coll_allreduce(&sums[i], &sums[i], 1, COLL_I32, op, comm, NULL);
    EXPECT(coll_group_end() == COLL_OK && coll_wait(&request) == COLL_OK,
           "end");
    for (int r = 0; r < n; r++)
        for (int i = 0; i <= r; i++)
            EXPECT(all[at++] == r, "part %d", r);
    at = 32;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < n - r; i++)
            EXPECT(all[at++] == r, "second part %d", r);
    EXPECT(sums[0] == n && sums[1] == 2 * n, "%d, %d", sums[0], sums[1]);
    EXPECT(operations(comm) == before + 4, "fused");
    return 0;
}

/* Where results are to repeat, a sum must not hang on its neighbours. */
static int two_sums(coll_comm *comm, int n, int messages)
{
    float x[2] = {1, 2};
    const uint64_t before = operations(comm);
    coll_group_start();
    for (int i = 0; i < 2; i++)
        coll_allreduce(&x[i], &x[i], 1, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(coll_group_end() == COLL_OK, "end");
    EXPECT(x[0] == (float)n && x[1] == 2.f * (float)n, "sums");
    EXPECT(operations(comm) == before + (uint64_t)messages, "messages");
    return 0;
}

static int as_one(coll_comm *comm, int rank, int n)
{
    (void)rank;
    return two_sums(comm, n, 1);
}

static int apart(coll_comm *comm, int rank, int n)
{
    (void)rank;
    return two_sums(comm, n, 2);
}

/* Messages of two communicators that wait for each other. */
static int two_communicators(coll_comm *comm, int rank, int n)
{
    enum { LONG = 500000 };
    int *out = calloc(LONG, sizeof(int)), *in = calloc(LONG, sizeof(int));
    coll_comm *other;
    (void)n;
    for (int i = 0; i < LONG; i++)
        out[i] = rank + i;
    EXPECT(coll_comm_dup(comm, &other) == COLL_OK, "dup");
    coll_comm *first = rank ? comm : other, *second = rank ? other : comm;
    coll_group_start();
    coll_send(out, LONG, COLL_I32, 1 - rank, 0, first, NULL);
    coll_recv(in, LONG, COLL_I32, 1 - rank, 0, second, NULL, NULL);
    EXPECT(coll_comm_destroy(other) == COLL_ERR_INVALID, "it is in use");
    EXPECT(coll_group_end() == COLL_OK, "end");
    for (int i = 0; i < LONG; i++)
        EXPECT(in[i] == 1 - rank + i, "element %d", i);
    EXPECT(coll_comm_destroy(other) == COLL_OK, "destroy");
    free(out);
    free(in);
    return 0;
}

static const char *const by_run[] = {"COLL_DETERMINISM=run", NULL};
static const char *const in_full[] = {"COLL_DETERMINISM=full", NULL};

Test(group, what_others_would_change_is_not_fused)
{
    cr_expect_eq(run_ranks(3, over_shm, other_calls), 0);
    cr_expect_eq(run_ranks(2, by_run, apart), 0);
    cr_expect_eq(run_ranks(2, in_full, as_one), 0);
}

Test(group, communicators_wait_for_each_other)
{
    cr_expect_eq(run_ranks(2, over_shm, two_communicators), 0);
    cr_expect_eq(run_ranks(2, over_ucx, two_communicators), 0);
}

/* Rank 1 answers what rank 0 sends in a group that has not ended. */
static int starts_at_once(coll_comm *comm, int rank, int n)
{
    int x = 7, y = 0;
    const time_t begun = time(NULL);
    (void)n;
    if (rank) {
        EXPECT(coll_recv(&y, 1, COLL_I32, 0, 0, comm, NULL, NULL) == COLL_OK
                   && y == 7,
               "%d", y);
        mark_rank();
        EXPECT(coll_send(&y, 1, COLL_I32, 0, 0, comm, NULL) == COLL_OK, "send");
        return 0;
    }
    coll_group_start();
    EXPECT(coll_recv(&y, 1, COLL_I32, 1, 0, comm, NULL, NULL) == COLL_OK
               && coll_send(&x, 1, COLL_I32, 1, 0, comm, NULL) == COLL_OK,
           "calls");
    await_marks(1);
    EXPECT(time(NULL) - begun < 30, "nothing was sent");
    EXPECT(coll_group_end() == COLL_OK && y == 7, "%d", y);
    return 0;
}

static coll_status end_inside;

static void end_group(void *out, const void *a, const void *b, size_t count,
                      coll_dtype dtype, void *context)
{
    end_inside = coll_group_end();
    add(out, a, b, count, dtype, context);
}

/* A function that a call on the communicator runs ends the group: it stays. */
static int ends_again(coll_comm *comm, int rank, int n)
{
    int sum = 1, y = 0;
    coll_op op;
    coll_request *request;
    EXPECT(coll_red_op_create(&op, rank ? add : end_group, NULL, 1, comm)
               == COLL_OK,
           "op");
    if (rank)
        await_marks(1);
    EXPECT(coll_allreduce(&sum, &sum, 1, COLL_I32, op, comm, &request)
               == COLL_OK,
           "allreduce");
    if (rank) {
        EXPECT(coll_wait(&request) == COLL_OK, "wait");
        EXPECT(coll_send(&sum, 1, COLL_I32, 0, 0, comm, NULL) == COLL_OK,
               "send");
        return 0;
    }
    coll_group_start();
    coll_recv(&y, 1, COLL_I32, 1, 0, comm, NULL, NULL);
    mark_rank();
    EXPECT(coll_wait(&request) == COLL_OK && sum == n, "wait");
    EXPECT(end_inside == COLL_ERR_BUSY, "status %d", end_inside);
    EXPECT(coll_group_end() == COLL_OK && y == n, "%d", y);
    EXPECT(coll_group_end() == COLL_ERR_INVALID, "it has ended");
    return 0;
}

Test(group, sends_and_receives_wait_for_no_end)
{
    cr_expect_eq(run_ranks(2, over_shm, starts_at_once), 0);
    cr_expect_eq(run_ranks(2, over_ucx, starts_at_once), 0);
}

Test(group, an_end_inside_a_call_changes_nothing)
{
    cr_expect_eq(run_ranks(2, over_shm, ends_again), 0);
}

/* Rank 0 does not group what the others do. */
static int unlike(coll_comm *comm, int rank, int n)
{
    float x[2] = {1, 1};
    coll_status status = COLL_OK;
    (void)n;
    if (rank)
        coll_group_start();
    for (int i = 0; i < 2 && status == COLL_OK; i++)
        status =
            coll_allreduce(&x[i], &x[i], 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank)
        status = coll_group_end();
    await_failure(comm);
    EXPECT(coll_comm_get_async_error(comm) == COLL_ERR_MISMATCH,
           "rank %d: status %d", rank, status);
    mark_rank();
    await_marks(2);
    _exit(0);
}

/* The operator of a call goes before the call starts. */
static int op_goes(coll_comm *comm, int rank, int n)
{
    int x = 1, y = 0;
    coll_op op;
    coll_request *request;
    (void)rank;
    EXPECT(coll_red_op_create(&op, add, NULL, 1, comm) == COLL_OK, "op");
    coll_group_start();
    EXPECT(coll_allreduce(&x, &y, 1, COLL_I32, op, comm, &request) == COLL_OK
               && coll_red_op_destroy(op, comm) == COLL_OK,
           "calls");
    EXPECT(coll_group_end() == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "coll_allreduce: op"),
           "end");
    EXPECT(coll_wait(&request) == COLL_ERR_INVALID && !request
               && strstr(coll_last_error(NULL), "coll_group_end() has said"),
           "wait");
    EXPECT(coll_allreduce(&x, &y, 1, COLL_I32, COLL_SUM, comm, NULL) == COLL_OK
               && y == n,
           "the communicator is as it was: %d", y);
    return 0;
}

Test(group, errors_are_told_at_its_end)
{
    cr_expect_eq(run_ranks(2, over_shm, errors), 0);
}

Test(group, a_request_whose_call_could_not_start_says_so)
{
    cr_expect_eq(run_ranks(2, over_shm, op_goes), 0);
}

Test(group, ranks_that_group_differently_are_found_out)
{
    cr_expect_eq(run_ranks(2, over_shm, unlike), 0);
    cr_expect_eq(run_ranks(2, over_ucx, unlike), 0);
}
