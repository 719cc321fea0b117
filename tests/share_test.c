/* SPDX-License-Identifier: MIT */
/* Memory that ranks have in common: what one writes all read, as long as anyone
 * has it, and what is wrong at one rank leaves all as they were. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/coll.h"
#include "ranks.h"

static const char *const shm[] = {"COLL_TRANSPORT=shm", "COLL_CALIBRATE=off",
                                  NULL};
static const char *const ucx[] = {"COLL_TRANSPORT=ucx", "COLL_CALIBRATE=off",
                                  NULL};

enum { LONG = 5 << 20, PAST = 16384, HUGE = 2 << 20, ROOM = 4 * HUGE };

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* `bytes` of them are a rank's own, some way into a huge page. */
static int *make(size_t bytes, int value)
{
    int *x = (int *)((char *)aligned_alloc(HUGE, ROOM) + PAST);
    for (size_t i = 0; i < bytes / sizeof(int); i++)
        x[i] = value + (int)i;
    return x;
}

static void drop(int *x)
{
    free((char *)x - PAST);
}

static bool has(const int *x, size_t bytes, int value)
{
    for (size_t i = 0; i < bytes / sizeof(int); i++)
        if (x[i] != value + (int)i)
            return false;
    return true;
}

static int meet(coll_comm *comm)
{
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    return 0;
}

/* Each in turn writes all of it, and then a part each. */
static int take_turns(coll_comm *comm, int *x, size_t bytes, int rank, int n)
{
    const size_t count = bytes / sizeof(int);
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < count && r == rank; i++)
            x[i] = 5 * r + (int)i;
        if (meet(comm))
            return 1;
        EXPECT(has(x, bytes, 5 * r), "rank %d wrote", r);
        if (meet(comm))
            return 1;
    }
    for (size_t i = (size_t)rank; i < count; i += (size_t)n)
        x[i] = 7 + (int)i;
    if (meet(comm))
        return 1;
    EXPECT(has(x, bytes, 7), "all wrote");
    return meet(comm);
}

static int have_in_common(coll_comm *comm, int rank, int n, size_t bytes)
{
    int *x = make(bytes, 1000 * rank);
    void *handle;
    const coll_status status = coll_comm_share(comm, x, bytes, &handle);
    if (bytes > 4 << 20 && status == COLL_ERR_UNSUPPORTED) {
        EXPECT(strstr(coll_last_error(comm), "cost more"), "sentence");
        EXPECT(has(x, bytes, 1000 * rank), "private");
        drop(x);
        return 0;
    }
    EXPECT(status == COLL_OK, "share");
    EXPECT(has(x, bytes, 0), "what rank 0 had");
    if (meet(comm) || take_turns(comm, x, bytes, rank, n))
        return 1;
    int sum = rank;
    EXPECT(coll_allreduce(x, &sum, 1, COLL_I32, COLL_SUM, comm, NULL) == COLL_OK
               && sum == 7 * n,
           "%d", sum);
    /* Who had it first leaves; the others go on. */
    if (rank == 0)
        EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "own again");
    if (meet(comm))
        return 1;
    for (size_t i = 0; i < bytes / sizeof(int); i++)
        if (rank == 0 || rank == n - 1)
            x[i] = 100 * rank + (int)i;
    if (meet(comm))
        return 1;
    EXPECT(has(x, bytes, rank ? 100 * (n - 1) : 0), "who is left");
    if (meet(comm))
        return 1;
    if (rank)
        EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "own again");
    if (meet(comm))
        return 1;
    for (size_t i = 0; i < bytes / sizeof(int); i++)
        x[i] += rank;
    if (meet(comm))
        return 1;
    EXPECT(has(x, bytes, (rank ? 100 * (n - 1) : 0) + rank), "its own");
    EXPECT(coll_comm_deregister(comm, handle) == COLL_ERR_INVALID, "twice");
    drop(x);
    return 0;
}

static int short_and_long(coll_comm *comm, int rank, int n)
{
    return have_in_common(comm, rank, n, page())
           || have_in_common(comm, rank, n, 3 * page())
           || have_in_common(comm, rank, n, LONG);
}

Test(share, what_one_writes_all_read, .timeout = 60)
{
    for (int n = 2; n <= 4; n++)
        cr_expect_eq(run_ranks(n, shm, short_and_long), 0, "%d ranks", n);
}

static int alone(coll_comm *comm, int rank, int n)
{
    int *x = make(page(), 3);
    void *handle;
    EXPECT(n == 1 && !rank, "one");
    EXPECT(coll_comm_share(comm, x, page(), &handle) == COLL_OK, "share");
    EXPECT(has(x, page(), 3), "the same");
    EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "own again");
    EXPECT(has(x, page(), 3), "the same");
    drop(x);
    return 0;
}

Test(share, one_rank_alone_keeps_what_it_has, .timeout = 60)
{
    cr_expect_eq(run_ranks(1, shm, alone), 0);
}

/* All say what is wrong at rank 1, keep their memory and can share it then. */
static int mistakes(coll_comm *comm, int rank, int n)
{
    const size_t bytes = 2 * page();
    int *x = make(bytes, rank);
    void *handle = NULL, *other;
    const bool wrong = rank == 1;
    (void)n;
    REFUSED(coll_comm_share(NULL, x, bytes, &handle), "communicator is NULL");
    REFUSED(coll_comm_share(comm, x, bytes, NULL), "handle is NULL");
    REFUSED(coll_comm_share(comm, wrong ? x + 1 : x, bytes, &handle),
            "rank 1: 8192 bytes");
    REFUSED(coll_comm_share(comm, wrong ? NULL : x, bytes, &handle),
            "not whole pages");
    REFUSED(coll_comm_share(comm, x, wrong ? page() : bytes, &handle),
            "rank 1 has 4096 bytes, rank 0 8192");
    EXPECT(!wrong || coll_comm_register(comm, x, bytes, &other) == COLL_OK,
           "register");
    REFUSED(coll_comm_share(comm, x, bytes, &handle), "is so already");
    EXPECT(!wrong || coll_comm_deregister(comm, other) == COLL_OK, "private");
    EXPECT(!handle && has(x, bytes, rank), "as before");
    EXPECT(coll_comm_share(comm, x, bytes, &handle) == COLL_OK, "share");
    REFUSED(coll_comm_register(comm, x, bytes, &other), "is so already");
    EXPECT(has(x, bytes, 0), "what rank 0 had");
    EXPECT(coll_comm_deregister(comm, handle) == COLL_OK, "own again");
    drop(x);
    return 0;
}

Test(share, what_is_wrong_at_one_is_told_to_all, .timeout = 60)
{
    if (page() != 4096)
        cr_skip("sentences have the bytes of small pages");
    cr_expect_eq(run_ranks(3, shm, mistakes), 0);
}

static int apart(coll_comm *comm, int rank, int n)
{
    int *x = make(page(), rank);
    void *handle;
    (void)n;
    EXPECT(coll_comm_share(comm, x, page(), &handle) == COLL_ERR_UNSUPPORTED
               && strstr(coll_last_error(NULL), "several hosts"),
           "ranks that share no memory");
    EXPECT(has(x, page(), rank), "as before");
    drop(x);
    return meet(comm);
}

Test(share, ranks_that_share_no_memory_are_told, .timeout = 60)
{
    cr_expect_eq(run_ranks(2, ucx, apart), 0);
}

static int others_do_not(coll_comm *comm, int rank, int n)
{
    int *x = make(page(), rank);
    void *handle;
    (void)n;
    const coll_status status = rank ? coll_barrier(comm, NULL)
                                    : coll_comm_share(comm, x, page(), &handle);
    EXPECT(status == COLL_ERR_MISMATCH, "found %s", coll_status_string(status));
    mark_rank();
    await_marks(n);
    _exit(0);
}

Test(share, other_calls_at_other_ranks_are_found, .timeout = 60)
{
    cr_expect_eq(run_ranks(2, shm, others_do_not), 0);
}
