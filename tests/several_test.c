/* SPDX-License-Identifier: MIT */
/* Requests of several communicators at once, on real processes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"
#include "thorough.h"

enum { COMMS = 3, COUNT = 70000 };

/* comms[0] is the given one; each further one has the same ranks. */
static int make_comms(coll_comm *comm, int rank, int n, coll_comm **comms)
{
    comms[0] = comm;
    for (int c = 1; c < COMMS; c++) {
        coll_unique_id id = {{0}};
        EXPECT(rank || coll_get_unique_id(&id) == COLL_OK, "id");
        EXPECT(coll_broadcast(&id, &id, sizeof(id), COLL_U8, 0, comm, NULL)
                   == COLL_OK,
               "the id of %d", c);
        EXPECT(coll_comm_init_rank(&comms[c], n, id, rank) == COLL_OK, "%d", c);
    }
    return 0;
}

static int destroy_comms(coll_comm **comms)
{
    for (int c = 1; c < COMMS; c++)
        EXPECT(coll_comm_destroy(comms[c]) == COLL_OK, "destroy %d", c);
    return 0;
}

static float in[COMMS][COUNT], out[COMMS][COUNT];

/* A request of each communicator at i * 2, and NULL between them. */
static int start_all(coll_comm **comms, int rank, coll_request **requests)
{
    for (int c = 0; c < COMMS; c++) {
        for (size_t i = 0; i < COUNT; i++) {
            in[c][i] = value(rank, i) + (float)c;
            out[c][i] = -1;
        }
        requests[2 * c] = requests[2 * c + 1] = NULL;
        EXPECT(coll_allreduce(in[c], out[c], COUNT, COLL_F32, COLL_SUM,
                              comms[c], &requests[2 * c])
                   == COLL_OK,
               "start %d", c);
    }
    return 0;
}

static int check_one(int c, int rank, int n)
{
    for (size_t i = 0; i < COUNT; i++)
        EXPECT(out[c][i]
                   == wanted(ALLREDUCE, rank, n, COUNT, i, COLL_SUM, 0)
                          + (float)(c * n),
               "communicator %d, element %zu: %g", c, i, (double)out[c][i]);
    return 0;
}

static int wait_for_all(coll_comm **comms, int rank, int n)
{
    coll_request *requests[2 * COMMS];
    if (start_all(comms, rank, requests))
        return 1;
    EXPECT(coll_wait_all(2 * COMMS, requests) == COLL_OK, "wait_all");
    for (int i = 0; i < 2 * COMMS; i++)
        EXPECT(!requests[i], "%d is not cleared", i);
    for (int c = 0; c < COMMS; c++)
        if (check_one(c, rank, n))
            return 1;
    EXPECT(coll_wait_all(2 * COMMS, requests) == COLL_OK, "all are NULL");
    return coll_wait_all(0, NULL);
}

static int wait_for_each(coll_comm **comms, int rank, int n, int polls)
{
    coll_request *requests[2 * COMMS];
    unsigned seen = 0;
    if (start_all(comms, rank, requests))
        return 1;
    for (int k = 0; k < COMMS; k++) {
        int index = -2;
        coll_status status;
        while ((status = polls ? coll_test_any(2 * COMMS, requests, &index)
                               : coll_wait_any(2 * COMMS, requests, &index))
               == COLL_IN_PROGRESS)
            EXPECT(polls && index == -2, "index %d", index);
        EXPECT(status == COLL_OK, "any");
        EXPECT(index >= 0 && index % 2 == 0 && !requests[index]
                   && !(seen & 1u << index),
               "index %d", index);
        seen |= 1u << index;
        if (check_one(index / 2, rank, n))
            return 1;
    }
    int index = -2;
    EXPECT(coll_wait_any(2 * COMMS, requests, &index) == COLL_OK && index == -1,
           "index %d with nothing to wait for", index);
    index = -2;
    EXPECT(coll_test_any(2 * COMMS, requests, &index) == COLL_OK && index == -1,
           "index %d with nothing to test", index);
    return 0;
}

static int test_for_all(coll_comm **comms, int rank, int n)
{
    coll_request *requests[2 * COMMS];
    coll_status status;
    if (start_all(comms, rank, requests))
        return 1;
    while ((status = coll_test_all(2 * COMMS, requests)) == COLL_IN_PROGRESS)
        for (int c = 0; c < COMMS; c++)
            EXPECT(requests[2 * c], "%d was ended before all were over", c);
    EXPECT(status == COLL_OK && !requests[0], "test_all");
    for (int c = 0; c < COMMS; c++)
        if (check_one(c, rank, n))
            return 1;
    return 0;
}

/* Rank 0 waits for all while the others take one after another, the last one
 * first or last: so each must go on while the others stand. */
static int one_by_one(coll_comm **comms, int rank, int n, int last_first)
{
    coll_request *requests[2 * COMMS];
    if (rank == 0)
        return wait_for_all(comms, rank, n);
    for (int k = 0; k < COMMS; k++) {
        const int c = last_first ? COMMS - 1 - k : k;
        for (size_t i = 0; i < COUNT; i++)
            in[c][i] = value(rank, i) + (float)c;
        EXPECT(coll_allreduce(in[c], out[c], COUNT, COLL_F32, COLL_SUM,
                              comms[c], NULL)
                   == COLL_OK,
               "%d", c);
    }
    memset(requests, 0, sizeof(requests));
    return coll_wait_all(2 * COMMS, requests);
}

static int several(coll_comm *comm, int rank, int n)
{
    coll_comm *comms[COMMS];
    if (make_comms(comm, rank, n, comms))
        return 1;
    for (unsigned k = 0; k < cases(5, 2); k++)
        if (wait_for_all(comms, rank, n) || wait_for_each(comms, rank, n, 0)
            || wait_for_each(comms, rank, n, 1) || test_for_all(comms, rank, n)
            || one_by_one(comms, rank, n, k % 2))
            return 1;
    return destroy_comms(comms);
}

Test(several, all_and_any_work_over_communicators)
{
    cr_assert_eq(run_ranks(2, over_shm, several), 0);
    cr_assert_eq(run_ranks(3, over_ucx, several), 0);
}

static double used(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
           + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Who waits for long for several leaves the processor, and hears soon. */
static int one_comes_late(coll_comm *comm, int rank, int n)
{
    coll_comm *comms[COMMS];
    coll_request *requests[2 * COMMS];
    double came = 0;
    if (make_comms(comm, rank, n, comms))
        return 1;
    for (int c = 0; c < COMMS; c++)
        EXPECT(coll_barrier(comms[c], NULL) == COLL_OK, "barrier");
    if (rank == 1)
        usleep(300000);
    const double before = used();
    if (start_all(comms, rank, requests))
        return 1;
    EXPECT(coll_wait_all(2 * COMMS, requests) == COLL_OK, "wait_all");
    const double spent = used() - before, mine = now();
    EXPECT(rank || spent < .25, "%g s of processor for 0.3 s", spent);
    EXPECT(coll_allreduce(&mine, &came, 1, COLL_F64, COLL_MIN, comm, NULL)
               == COLL_OK,
           "clock");
    EXPECT(mine - came < .25, "%g s behind the first", mine - came);
    return destroy_comms(comms);
}

Test(several, who_waits_for_long_sleeps)
{
    cr_assert_eq(run_ranks(2, over_shm, one_comes_late), 0);
    cr_assert_eq(run_ranks(2, over_ucx, one_comes_late), 0);
}

/* Of three communicators the middle one is aborted: its requests end with that,
 * the others' are right. */
static int one_fails(coll_comm *comm, int rank, int n)
{
    coll_comm *comms[COMMS];
    coll_request *requests[2 * COMMS];
    if (make_comms(comm, rank, n, comms))
        return 1;
    if (rank == 1) {
        for (int c = 0; c < COMMS; c++)
            for (size_t i = 0; i < COUNT; i++)
                in[c][i] = value(rank, i) + (float)c;
        await_marks(1);
        coll_comm_abort(comms[1]);
        for (int c = 0; c < COMMS; c += 2)
            EXPECT(coll_allreduce(in[c], out[c], COUNT, COLL_F32, COLL_SUM,
                                  comms[c], NULL)
                       == COLL_OK,
                   "%d", c);
    } else {
        if (start_all(comms, rank, requests))
            return 1;
        mark_rank();
        EXPECT(coll_wait_all(2 * COMMS, requests) == COLL_ERR_ABORTED, "wait");
        EXPECT(strstr(coll_last_error(NULL), "rank 1 called coll_comm_abort()"),
               "sentence");
        for (int i = 0; i < 2 * COMMS; i++)
            EXPECT(!requests[i], "%d is not cleared", i);
        if (check_one(0, rank, n) || check_one(2, rank, n))
            return 1;
    }
    EXPECT(coll_comm_destroy(comms[1]) == COLL_ERR_ABORTED, "aborted");
    return coll_comm_destroy(comms[2]);
}

Test(several, a_failure_ends_the_requests_of_its_communicator)
{
    cr_assert_eq(run_ranks(2, over_shm, one_fails), 0);
    cr_assert_eq(run_ranks(2, over_ucx, one_fails), 0);
}

/* Rank 1 serves none but the last one: the others end at the deadline. */
static int one_is_awaited(coll_comm *comm, int rank, int n)
{
    coll_comm *comms[COMMS];
    coll_request *requests[2 * COMMS];
    int index = -2;
    if (make_comms(comm, rank, n, comms))
        return 1;
    if (rank == 1) {
        EXPECT(coll_allreduce(in[2], out[2], COUNT, COLL_F32, COLL_SUM,
                              comms[2], NULL)
                   == COLL_OK,
               "the last");
        await_failure(comms[0]);
        await_failure(comms[1]);
    } else {
        if (start_all(comms, rank, requests))
            return 1;
        EXPECT(coll_wait_any(2 * COMMS, requests, &index) == COLL_OK
                   && index == 4,
               "index %d", index);
        EXPECT(coll_wait_any(2 * COMMS, requests, &index) == COLL_ERR_TIMEOUT
                   && (index == 0 || index == 2) && !requests[index],
               "index %d", index);
        EXPECT(coll_wait_all(2 * COMMS, requests) == COLL_ERR_TIMEOUT, "rest");
    }
    EXPECT(coll_comm_destroy(comms[1]) == COLL_ERR_TIMEOUT, "destroy");
    EXPECT(coll_comm_destroy(comms[2]) == COLL_OK, "destroy");
    await_failure(comm);
    mark_rank();
    await_marks(n);
    _exit(0);
}

Test(several, each_operation_has_its_deadline)
{
    static const char *const shm[] = {"COLL_TRANSPORT=shm",
                                      "COLL_OP_SECONDS=0.5", NULL};
    static const char *const ucx[] = {"COLL_TRANSPORT=ucx",
                                      "COLL_OP_SECONDS=0.5", NULL};
    cr_assert_eq(run_ranks(2, shm, one_is_awaited), 0);
    cr_assert_eq(run_ranks(2, ucx, one_is_awaited), 0);
}

static int wrong(coll_comm *comm, int rank, int n)
{
    coll_request *request = NULL;
    int index;
    (void)comm, (void)rank, (void)n;
    EXPECT(coll_wait_all(-1, &request) == COLL_ERR_INVALID, "negative");
    EXPECT(coll_test_all(1, NULL) == COLL_ERR_INVALID, "NULL");
    EXPECT(coll_wait_any(1, NULL, &index) == COLL_ERR_INVALID, "NULL");
    EXPECT(coll_test_any(1, &request, NULL) == COLL_ERR_INVALID, "index");
    EXPECT(!strcmp(coll_last_error(NULL), "coll_test_any: index is NULL"),
           "sentence");
    return 0;
}

Test(several, wrong_arguments_are_refused)
{
    cr_assert_eq(run_ranks(1, NULL, wrong), 0);
}
