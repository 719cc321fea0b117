/* SPDX-License-Identifier: MIT */
/* Jobs that take in new ranks, also in place of dead ones. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"
#include "elastic.h"
#include "hosts.h"

/* What all ranks and their new ones see. */
static struct {
    atomic_int given;
    coll_unique_id id;
} * seen;

static void share(void)
{
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(seen, MAP_FAILED);
}

/* A process that joins as `rank` of n, by the id that is given sometime. */
static pid_t fork_new(int rank, int n)
{
    const pid_t child = fork();
    if (child)
        return child;
    coll_comm *comm;
    for (int i = 0; quick[i]; i++)
        putenv((char *)(uintptr_t)quick[i]);
    while (!atomic_load(&seen->given))
        pause_ms(1);
    const coll_status status =
        coll_comm_grow(NULL, n, &seen->id, rank, &comm, NULL);
    if (status < 0)
        fprintf(stderr, "new rank %d: %s\n", rank, coll_last_error(NULL));
    if (status < 0 || sums_right(comm, n) || coll_comm_destroy(comm) < 0)
        _exit(1);
    _exit(0);
}

static coll_unique_id *give_id(int rank)
{
    if (rank != 0 || coll_get_unique_id(&seen->id) < 0)
        return NULL;
    atomic_store(&seen->given, 1);
    return &seen->id;
}

static pid_t late_ones[2];

static int take_in(coll_comm *comm, int rank, int n)
{
    coll_comm *more;
    EXPECT(
        coll_comm_grow(comm, n + 2, give_id(rank), rank ? -1 : 0, &more, NULL)
            == COLL_OK,
        "rank %d", rank);
    EXPECT(coll_comm_user_rank(more) == rank, "it has another rank");
    if (sums_right(more, n + 2))
        return 1;
    EXPECT(coll_comm_destroy(more) == COLL_OK, "destroy");
    EXPECT(sum(comm, 1) == n, "the old one");
    return 0;
}

static void await_new_ones(int n)
{
    for (int i = 0; i < n; i++) {
        int status = -1;
        cr_assert_eq(waitpid(late_ones[i], &status, 0), late_ones[i]);
        cr_assert_eq(status, 0, "a new one ended with %d", status);
    }
}

Test(grow, new_ranks_are_taken_in)
{
    share();
    for (int i = 0; i < 2; i++)
        late_ones[i] = fork_new(2 + i, 4);
    cr_assert_eq(run_on("aa", quick, take_in), 0);
    await_new_ones(2);
}

/* The elastic job: one dies, the others go on, and a new one takes its place.
 */
static int replace(coll_comm *comm, int rank, int n)
{
    coll_comm *fewer, *again;
    EXPECT(sum(comm, 1) == n, "all");
    mark_rank();
    if (rank == 1)
        die(n);
    while (sum(comm, 1) >= 0)
        ;
    EXPECT(coll_comm_shrink(comm, NULL, 0, &fewer, NULL, 0) == COLL_OK,
           "rank %d", rank);
    EXPECT(sum(fewer, 1) == n - 1, "who lives");
    EXPECT(coll_comm_grow(fewer, n, give_id(rank), -1, &again, NULL) == COLL_OK,
           "rank %d", rank);
    if (sums_right(again, n))
        return 1;
    EXPECT(coll_comm_destroy(again) == COLL_OK, "destroy");
    EXPECT(coll_comm_destroy(fewer) == COLL_OK, "destroy");
    coll_comm_destroy(comm);
    _exit(0);
}

Test(grow, the_dead_are_replaced)
{
    share();
    late_ones[0] = fork_new(2, 3);
    cr_assert_eq(run_on("aaa", quick, replace), 1);
    await_new_ones(1);
}

/* Nobody new comes: all old ones are told, and go on as before. */
static int in_vain(coll_comm *comm, int rank, int n)
{
    coll_comm *more;
    EXPECT(coll_comm_grow(comm, n + 1, give_id(rank), -1, &more, NULL)
                   == COLL_ERR_PEER
               && strstr(coll_last_error(NULL), "rank 2"),
           "rank %d", rank);
    EXPECT(sum(comm, 1) == n, "the old one");
    return 0;
}

Test(grow, who_does_not_come_is_named)
{
    share();
    cr_assert_eq(run_on("aa", short_joins, in_vain), 0);
}
