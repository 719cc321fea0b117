/* SPDX-License-Identifier: MIT */
/* Communicators of real processes of which one does wrong: calls that nobody
 * can mean or that differ, ranks that abort, die or come late. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"

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
    REFUSED(coll_gather(x, x + 4, 1, COLL_F32, n, comm, NULL),
            "coll_gather: root 2 is no rank of 2");
    REFUSED(coll_scatter(x, x + 4, 1, COLL_F32, -1, comm, NULL),
            "coll_scatter: root -1");
    REFUSED(coll_gather(rank ? NULL : x, rank ? x : NULL, 1, COLL_F32, 0, comm,
                        NULL),
            rank ? "coll_gather: send is NULL" : "coll_gather: recv is NULL");
    REFUSED(coll_scatter(rank ? x : NULL, rank ? NULL : x, 1, COLL_F32, 0, comm,
                         NULL),
            rank ? "coll_scatter: recv is NULL" : "coll_scatter: send is NULL");
    REFUSED(
        coll_gather(x + !rank, x, 1, COLL_F32, rank, comm, NULL),
        "coll_gather: send and recv overlap without send being recv + root");
    REFUSED(
        coll_scatter(x, x + !rank, 1, COLL_F32, rank, comm, NULL),
        "coll_scatter: send and recv overlap without recv being send + root");
    REFUSED(coll_alltoall(x, x + n - 1, 1, COLL_F32, comm, NULL),
            "coll_alltoall: send and recv overlap without being equal");
    REFUSED(coll_alltoall(x, x + 4, lots, COLL_F32, comm, NULL),
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

Test(comm_wrong, wrong_arguments_are_refused_and_do_no_harm)
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
    EXPECT(now() - start < 10, "late: %g s", now() - start);
    EXPECT(coll_comm_get_async_error(comm) == COLL_ERR_ABORTED, "async");
    coll_comm_destroy(comm);
    _exit(0);
}

/* Rank 1's own sentence is the reason; the others' has who it is before it. */
static int one_gives_a_reason(coll_comm *comm, int rank, int n)
{
    static const char why[] = "tuning.json: line 3: no such thing";
    float x = 0;
    (void)n;
    coll_status status =
        coll_allreduce(&x, &x, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == 1) {
        EXPECT(coll_comm_abort_because(comm, NULL) == COLL_ERR_INVALID, "NULL");
        EXPECT(coll_comm_get_async_error(comm) == COLL_OK, "it aborted");
        EXPECT(coll_comm_abort_because(comm, why) == COLL_OK, "abort");
        EXPECT(!strcmp(coll_last_error(comm), why), "%s",
               coll_last_error(comm));
        coll_comm_abort_because(comm, "another reason");
        EXPECT(!strcmp(coll_last_error(comm), why), "%s",
               coll_last_error(comm));
        coll_comm_destroy(comm);
        _exit(0);
    }
    while (status == COLL_OK)
        status = coll_allreduce(&x, &x, 1, COLL_F32, COLL_SUM, comm, NULL);
    const char *said = coll_last_error(comm);
    EXPECT(status == COLL_ERR_ABORTED, "%d", status);
    EXPECT(!strncmp(said, "rank 1 (host ", 13), "%s", said);
    EXPECT(strstr(said, why), "%s", said);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm_wrong, an_abort_with_a_reason_is_told_with_it)
{
    cr_assert_eq(run_ranks(3, over_shm, one_gives_a_reason), 0);
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
    while (status == COLL_OK && now() - start < 20)
        status = coll_allreduce(x, x, 1 << 20, COLL_F32, COLL_SUM, comm, NULL);
    EXPECT(status == COLL_ERR_PEER, "%d", status);
    EXPECT(strstr(coll_last_error(comm), "rank 1"), "%s",
           coll_last_error(comm));
    EXPECT(now() - start < 10, "late: %g s", now() - start);
    EXPECT(coll_comm_destroy(comm) == COLL_ERR_PEER, "destroy");
    _exit(0);
}

Test(comm_wrong, abort_wakes_the_others_and_names_the_rank)
{
    cr_assert_eq(run_ranks(3, over_shm, one_aborts), 0);
    cr_assert_eq(run_ranks(2, over_ucx, one_aborts), 0);
}

Test(comm_wrong, a_killed_rank_is_named_to_all)
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
    EXPECT(strstr(why, rank ? "rank 0 called allreduce of 99 f32"
                            : "rank 1 called allreduce of 100 f32"),
           "%s", why);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm_wrong, different_calls_are_an_error_on_every_rank)
{
    cr_assert_eq(run_ranks(2, over_shm, different_calls), 0);
    cr_assert_eq(run_ranks(2, over_ucx, different_calls), 0);
}

/* Rank 0 makes the first call of a pair, the others the second. Where no rank
 * waits for a message of the other call it is seen in the next one. */
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
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_MISMATCH, "pair %d, %s: %d", pair,
           call_names[kind], status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm_wrong, different_kinds_and_roots_are_an_error_on_every_rank)
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
    if (rank == 1) {
        await_marks(1);
        await_failure(comm);
    }
    const coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, NULL);
    mark_rank();
    if (rank == 0)
        await_marks(n); /* the news go through its process */
    EXPECT(status == COLL_ERR_TIMEOUT, "%d", status);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm_wrong, an_operation_has_a_deadline)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=0.5", NULL};
    cr_assert_eq(run_ranks(2, settings, too_slow), 0);
}

/* Rank 1 comes after the deadline; rank 0 asks all the time, or not while it
 * waits. */
static int asks;

static int one_is_late(coll_comm *comm, int rank, int n)
{
    float x[10] = {0};
    coll_request *request = NULL;
    if (rank == 1) {
        await_marks(1);
        if (asks)
            await_failure(comm);
        else
            usleep(1200000);
        mark_rank();
    }
    coll_status status =
        coll_allreduce(x, x, 10, COLL_F32, COLL_SUM, comm, &request);
    for (long i = 0; request; i++) {
        status = coll_test(&request);
        if (i == 0 && rank == 0 && !asks) {
            mark_rank();
            await_marks(n);
        }
    }
    mark_rank();
    if (rank == 0 && asks)
        await_marks(n + 1); /* the news go through its process */
    EXPECT(status == (asks ? COLL_ERR_TIMEOUT : COLL_OK), "%d", status);
    EXPECT(!asks || strstr(coll_last_error(comm), "within 0.5 s"), "%s",
           coll_last_error(comm));
    coll_comm_destroy(comm);
    _exit(0);
}

Test(comm_wrong, who_asks_in_vain_is_told_at_the_deadline)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=0.5", NULL};
    asks = 1;
    cr_assert_eq(run_ranks(2, settings, one_is_late), 0);
}

Test(comm_wrong, who_does_not_ask_has_not_waited)
{
    static const char *const settings[] = {"COLL_OP_SECONDS=1", NULL};
    asks = 0;
    cr_assert_eq(run_ranks(2, settings, one_is_late), 0);
}
