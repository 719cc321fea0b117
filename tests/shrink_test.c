/* SPDX-License-Identifier: MIT */
/* Jobs that go on without some ranks, dead or alive. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"
#include "elastic.h"
#include "hosts.h"
#include "thorough.h"

static int without_odd_ones(coll_comm *comm, int rank, int n)
{
    coll_comm *even;
    if (rank % 2 == 0) {
        int odd[16], nodd = 0;
        for (int r = 1; r < n; r += 2)
            odd[nodd++] = r;
        EXPECT(
            coll_comm_shrink(comm, odd, nodd, &even, NULL, COLL_SHRINK_DEFAULT)
                == COLL_OK,
            "rank %d", rank);
        EXPECT(coll_comm_user_rank(even) == rank / 2, "new rank");
        EXPECT(sum(even, rank) == (n - 1) / 2 * ((n - 1) / 2 + 1), "sum");
        if (sums_right(even, (n + 1) / 2))
            return 1;
        EXPECT(coll_comm_destroy(even) == COLL_OK, "destroy");
    }
    EXPECT(sum(comm, 1) == n, "all are still there");
    return 0;
}

Test(shrink, who_stays_has_a_communicator_beside_that_of_all)
{
    cr_assert_eq(run_on("aaaa", quick, without_odd_ones), 0);
    cr_assert_eq(run_on("aab", quick, without_odd_ones), 0);
    cr_assert_eq(run_on("aa", quick, without_odd_ones), 0);
}

/* One after another dies, as `next` says who, until one is left. */
static int outlive(coll_comm *comm, int rank, int n, int (*next)(int n))
{
    coll_comm *c = comm;
    for (int left = n, marks = 0; left > 1; left--) {
        coll_comm *new;
        const int dead = next(left);
        EXPECT(sum(c, 1) == left, "all of %d", left);
        mark_rank();
        marks += left;
        if (coll_comm_user_rank(c) == dead)
            die(marks);
        while (sum(c, 1) >= 0)
            ;
        EXPECT(coll_comm_get_async_error(c) == COLL_ERR_PEER, "PEER of %d",
               rank);
        EXPECT(coll_comm_shrink(c, NULL, 0, &new, NULL, COLL_SHRINK_DEFAULT)
                   == COLL_OK,
               "%d of %d dead", dead, left);
        if (c != comm)
            coll_comm_destroy(c);
        c = new;
        if (sums_right(c, left - 1))
            return 1;
    }
    _exit(0);
}

static int first_of(int n)
{
    (void)n;
    return 0;
}

static int last_of(int n)
{
    return n - 1;
}

static int middle_of(int n)
{
    return n / 2;
}

static int first_dies(coll_comm *comm, int rank, int n)
{
    return outlive(comm, rank, n, first_of);
}

static int last_dies(coll_comm *comm, int rank, int n)
{
    return outlive(comm, rank, n, last_of);
}

static int middle_dies(coll_comm *comm, int rank, int n)
{
    return outlive(comm, rank, n, middle_of);
}

/* The process of the hub, too. */
Test(shrink, whoever_dies_the_others_go_on)
{
    cr_assert_eq(run_on("aaaa", quick, first_dies), 3);
    cr_assert_eq(run_on("aaaa", quick, last_dies), 3);
    if (thorough())
        cr_assert_eq(run_on("aaaaa", quick, middle_dies), 4);
}

Test(shrink, so_they_do_on_several_hosts)
{
    cr_assert_eq(run_on("aab", quick, first_dies), 2);
    if (thorough())
        cr_assert_eq(run_on("abb", quick, last_dies), 2);
}

static int two_die(coll_comm *comm, int rank, int n)
{
    static const int dead[] = {0, 2};
    coll_comm *new;
    EXPECT(sum(comm, 1) == n, "all");
    mark_rank();
    if (rank == 0 || rank == 2)
        die(n);
    while (sum(comm, 1) >= 0)
        ;
    EXPECT(coll_comm_shrink(comm, dead, 2, &new, NULL, COLL_SHRINK_DEFAULT)
               == COLL_OK,
           "rank %d", rank);
    if (sums_right(new, n - 2))
        return 1;
    coll_comm_destroy(new);
    _exit(0);
}

Test(shrink, several_dead_are_named)
{
    cr_assert_eq(run_on("aaaaa", quick, two_die), 2);
}

/* Another one dies; the rest, who were about to meet, try again without it. */
static int next_dead = 1;

static int try_again(coll_comm *comm, int rank, int n)
{
    const int dead[] = {3, next_dead};
    const time_t began = time(NULL);
    coll_comm *new;
    const coll_status status =
        coll_comm_shrink(comm, dead, 1, &new, NULL, COLL_SHRINK_DEFAULT);
    EXPECT(
        rank != next_dead && status == COLL_ERR_PEER
            && strstr(coll_last_error(NULL), next_dead ? "rank 1" : "rank 0"),
        "status %d of rank %d: %s", status, rank, coll_last_error(NULL));
    EXPECT(coll_comm_shrink(comm, dead, 2, &new, NULL, COLL_SHRINK_DEFAULT)
               == COLL_OK,
           "rank %d again: %s", rank, coll_last_error(NULL));
    EXPECT(time(NULL) - began < 10, "rank %d found it late", rank);
    if (sums_right(new, n - 2))
        return 1;
    coll_comm_destroy(new);
    _exit(0);
}

static int last_one_dies(coll_comm *comm, int rank, int n)
{
    EXPECT(sum(comm, 1) == n, "all");
    mark_rank();
    if (rank == 3)
        die(n);
    while (sum(comm, 1) >= 0)
        ;
    return 0;
}

static int one_more_dies(coll_comm *comm, int rank, int n)
{
    if (last_one_dies(comm, rank, n))
        return 1;
    if (rank == 1)
        die(n);
    return try_again(comm, rank, n);
}

Test(shrink, who_dies_meanwhile_is_named_and_it_may_be_tried_again)
{
    cr_assert_eq(run_on("aaaa", short_joins, one_more_dies), 2);
}

/* It waits for the last to meet, who comes late. */
static int dies_waiting(coll_comm *comm, int rank, int n)
{
    const struct itimerval soon = {.it_value.tv_usec = 200000};
    if (last_one_dies(comm, rank, n))
        return 1;
    if (rank == next_dead)
        setitimer(ITIMER_REAL, &soon, NULL); /* SIGALRM ends it */
    if (rank == 2)
        pause_ms(500);
    return try_again(comm, rank, n);
}

Test(shrink, who_dies_waiting_is_named_to_who_comes_late)
{
    static const char *const joins[] = {"COLL_JOIN_SECONDS=20", NULL};
    for (next_dead = 0; next_dead < 2; next_dead++)
        cr_assert_eq(run_on("aaaa", joins, dies_waiting), 2);
}

/* Ranks that wait in the old one. */
static int called_out(coll_comm *comm, int rank, int n)
{
    static const int late[] = {1};
    coll_comm *new;
    EXPECT(sum(comm, 1) == n, "all");
    if (rank == 1) { /* does not come to what others are in */
        await_failure(comm);
        _exit(0);
    }
    if (rank == 0)
        pause_ms(30);
    else
        EXPECT(sum(comm, 1) == -1
                   && coll_comm_get_async_error(comm) == COLL_ERR_ABORTED,
               "rank %d", rank);
    if (rank == 0 && n == 3)
        EXPECT(coll_comm_revoke(comm, 0) == COLL_OK, "revoke");
    EXPECT(coll_comm_shrink(comm, late, 1, &new, NULL,
                            n == 3 ? COLL_SHRINK_DEFAULT : COLL_SHRINK_ABORT)
               == COLL_OK,
           "rank %d", rank);
    if (sums_right(new, n - 1))
        return 1;
    EXPECT(coll_comm_destroy(new) == COLL_OK, "destroy");
    coll_comm_destroy(comm);
    _exit(0);
}

Test(shrink, waiting_ranks_are_called_out)
{
    cr_assert_eq(run_on("aaa", quick, called_out), 0);  /* revoke */
    cr_assert_eq(run_on("aaaa", quick, called_out), 0); /* SHRINK_ABORT */
}

/* Rank 0 means 0, 1 and 3, the others 0, 1 and 2: these are as many, and have
 * the same first one. */
static int disagree(coll_comm *comm, int rank, int n)
{
    const int other = rank == 0 ? 2 : 3;
    coll_comm *new;
    if (rank < 3)
        EXPECT(coll_comm_shrink(comm, &other, 1, &new, NULL, 0)
                   == COLL_ERR_PEER,
               "rank %d", rank);
    EXPECT(sum(comm, 1) == n, "the old one");
    return 0;
}

Test(shrink, who_means_other_ranks_is_not_met)
{
    cr_assert_eq(run_on("aaaa", short_joins, disagree), 0);
}

/* Twice the same ranks: the second ones do not meet the first ones' hub. */
static int twice(coll_comm *comm, int rank, int n)
{
    const int last = n - 1;
    coll_comm *one, *other;
    if (rank < last) {
        EXPECT(coll_comm_shrink(comm, &last, 1, &one, NULL, 0) == COLL_OK,
               "once");
        EXPECT(coll_comm_shrink(comm, &last, 1, &other, NULL, 0) == COLL_OK,
               "again");
        EXPECT(sum(one, 1) == last && sum(other, 2) == 2 * last, "both");
        EXPECT(coll_comm_destroy(one) == COLL_OK, "destroy");
        EXPECT(coll_comm_destroy(other) == COLL_OK, "destroy");
    }
    EXPECT(sum(comm, 1) == n, "all");
    return 0;
}

Test(shrink, the_same_ranks_may_do_it_again)
{
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run_on("aaaaaaaa", quick, twice), 0);
}

/* Also where a rank has not looked since. */
static int abort_after_death(coll_comm *comm, int rank, int n)
{
    coll_comm *new;
    EXPECT(sum(comm, 1) == n, "all");
    mark_rank();
    if (rank == 2)
        die(n);
    if (rank == 0)
        while (sum(comm, 1) >= 0)
            ;
    else
        pause_ms(100);
    EXPECT(coll_comm_shrink(comm, NULL, 0, &new, NULL, COLL_SHRINK_ABORT)
               == COLL_OK,
           "rank %d", rank);
    if (sums_right(new, n - 1))
        return 1;
    coll_comm_destroy(new);
    _exit(0);
}

Test(shrink, an_abort_does_not_hide_who_died)
{
    cr_assert_eq(run_on("aaa", quick, abort_after_death), 1);
}

static void *wait_in(void *comm)
{
    coll_barrier(comm, NULL);
    return NULL;
}

/* The thread is in a barrier to which the last rank does not come. */
static int beside_a_thread(coll_comm *comm, int rank, int n)
{
    const int last = n - 1;
    coll_comm *new;
    pthread_t thread;
    if (rank == last) {
        await_failure(comm);
        _exit(0);
    }
    pthread_create(&thread, NULL, wait_in, comm);
    pause_ms(50);
    EXPECT(coll_comm_shrink(comm, &last, 1, &new, NULL, 0) == COLL_ERR_BUSY
               && coll_comm_get_async_error(comm) == COLL_OK,
           "busy");
    mark_rank();
    await_marks(last);
    EXPECT(coll_comm_shrink(comm, &last, 1, &new, NULL, COLL_SHRINK_ABORT)
               == COLL_OK,
           "rank %d", rank);
    pthread_join(thread, NULL);
    if (sums_right(new, last))
        return 1;
    EXPECT(coll_comm_destroy(new) == COLL_OK, "destroy");
    coll_comm_destroy(comm);
    _exit(0);
}

Test(shrink, a_thread_that_waits_is_called_out)
{
    cr_assert_eq(run_on("aaa", quick, beside_a_thread), 0);
}

static int finalized(coll_comm *comm, int rank, int n)
{
    coll_comm *new;
    EXPECT(coll_comm_finalize(comm) == COLL_OK, "rank %d", rank);
    REFUSED(coll_comm_shrink(comm, NULL, 0, &new, NULL, 0), "was finalized");
    REFUSED(coll_comm_grow(comm, n + 1, NULL, -1, &new, NULL), "was finalized");
    return 0;
}

static int refused(coll_comm *comm, int rank, int n)
{
    const int self[] = {rank}, twice[] = {1 - rank, 1 - rank}, beyond[] = {n};
    coll_comm *new = NULL;
    REFUSED(coll_comm_shrink(NULL, NULL, 0, &new, NULL, 0), "NULL");
    REFUSED(coll_comm_shrink(comm, NULL, 0, NULL, NULL, 0), "newcomm is NULL");
    REFUSED(coll_comm_shrink(comm, NULL, 1, &new, NULL, 0), "exclude is NULL");
    REFUSED(coll_comm_shrink(comm, self, -1, &new, NULL, 0), "0 or more");
    REFUSED(coll_comm_shrink(comm, self, 1, &new, NULL, 0), "excludes itself");
    REFUSED(coll_comm_shrink(comm, twice, 2, &new, NULL, 0), "twice");
    REFUSED(coll_comm_shrink(comm, beyond, 1, &new, NULL, 0),
            "valid are ranks");
    REFUSED(coll_comm_shrink(comm, twice, 1, &new, NULL, 6), "flags 0x6");
    REFUSED(coll_comm_shrink(comm, beyond, 1, &new, NULL, COLL_SHRINK_ABORT),
            "valid are ranks");
    REFUSED(coll_comm_revoke(comm, 1), "valid is 0");
    REFUSED(coll_comm_revoke(NULL, 0), "NULL");
    REFUSED(coll_comm_grow(NULL, n, NULL, 0, &new, NULL), "needs an id");
    REFUSED(coll_comm_grow(comm, n + 1, NULL, 7, &new, NULL), "rank 7");
    REFUSED(coll_comm_grow(comm, n, NULL, -1, &new, NULL), "more than the 2");
    REFUSED(coll_comm_grow(comm, n + 1, NULL, -1, &new, NULL), "no rank has");
    REFUSED(coll_comm_grow(comm, n + 1 + rank, NULL, -1, &new, NULL),
            "rank 0 wants 3 ranks, rank 1 4");
    EXPECT(!new &&sum(comm, 1) == n, "nothing has happened");
    return 0;
}

Test(shrink, what_no_program_may_ask_is_refused)
{
    cr_assert_eq(run_on("aa", quick, refused), 0);
    cr_assert_eq(run_on("aa", quick, finalized), 0);
}

static int files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Of refuges, and hubs in them. */
static int again_and_again(coll_comm *comm, int rank, int n)
{
    const int last = n - 1;
    int before = 0;
    for (int i = 0; i < 20 && rank < last; i++) {
        coll_comm *new;
        EXPECT(coll_comm_shrink(comm, &last, 1, &new, NULL, 0) == COLL_OK,
               "time %d", i);
        EXPECT(sum(new, 1) == last, "time %d", i);
        EXPECT(coll_comm_destroy(new) == COLL_OK, "destroy");
        if (i == 2)
            before = files();
    }
    pause_ms(100); /* a hub ends by itself */
    EXPECT(rank == last || files() <= before, "%d files, then %d", before,
           files());
    EXPECT(sum(comm, 1) == n, "all");
    return 0;
}

Test(shrink, nothing_is_left_of_it)
{
    cr_assert_eq(run_on("aaa", quick, again_and_again), 0);
}
