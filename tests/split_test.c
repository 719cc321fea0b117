/* SPDX-License-Identifier: MIT */
/* Communicators of processes, split off from others. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "coll/coll.h"
#include "ranks.h"

static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};
static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};

static int sum(coll_comm *comm, int mine)
{
    if (coll_allreduce(&mine, &mine, 1, COLL_I32, COLL_SUM, comm, NULL))
        return -1;
    return mine;
}

/* Rows and columns of a grid of two by n / 2, which each rank uses in turn. */
static int grid(coll_comm *comm, int rank, int n)
{
    const int width = n / 2, row = rank / width, column = rank % width;
    coll_comm *along, *across;
    EXPECT(coll_comm_split(comm, row, column, &along, NULL) == COLL_OK, "row");
    EXPECT(coll_comm_split(comm, column, row, &across, NULL) == COLL_OK,
           "column");
    for (int k = 0; k < 100; k++) {
        EXPECT(sum(along, column + k) == width * (width - 1) / 2 + width * k,
               "row");
        EXPECT(sum(across, row) == 1, "column");
    }
    EXPECT(sum(comm, 1) == n, "parent");
    EXPECT(coll_comm_destroy(row ? along : across) == COLL_OK, "destroy");
    EXPECT(coll_comm_destroy(row ? across : along) == COLL_OK, "destroy");
    return 0;
}

Test(split, a_grid_has_rows_and_columns)
{
    cr_assert_eq(run_ranks(4, over_shm, grid), 0);
    cr_assert_eq(run_ranks(6, over_shm, grid), 0);
    cr_assert_eq(run_ranks(4, over_ucx, grid), 0);
}

/* The hub of the half is in another process than that of the whole. */
static int one_dies(coll_comm *comm, int rank, int n)
{
    coll_comm *half, *copy;
    EXPECT(coll_comm_split(comm, rank > 1, -rank, &half, NULL) == COLL_OK,
           "split of %d", n);
    coll_barrier(comm, NULL); /* or it may die while others still split */
    if (rank == 3)
        raise(SIGKILL);
    EXPECT(coll_comm_dup(comm, &copy) == COLL_ERR_PEER, "dup");
    EXPECT(strstr(coll_last_error(NULL), "rank 3"), "who");
    if (rank == 2)
        EXPECT(sum(half, 1) == -1 && strstr(coll_last_error(half), "hub"),
               "half: %s", coll_last_error(half));
    else
        EXPECT(sum(half, 1) == 2, "the other half");
    mark_rank();
    if (rank == 0)
        await_marks(n - 1); /* the news go through its process */
    coll_comm_destroy(half);
    coll_comm_destroy(comm);
    _exit(0);
}

Test(split, a_death_ends_the_groups_of_the_dead)
{
    cr_assert_eq(run_ranks(4, over_shm, one_dies), 1); /* itself */
}
