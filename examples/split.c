/* SPDX-License-Identifier: MIT */
/* Ranks as a grid: each row has a communicator of its own, and so has each
 * column.
 *
 *   cc split.c $(pkg-config --cflags --libs coll) -o split
 *   collrun -n 6 ./split
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "split: %s\n", coll_last_error(NULL));
    exit(1);
}

static int sum(coll_comm *comm, int x)
{
    check(coll_allreduce(&x, &x, 1, COLL_I32, COLL_SUM, comm, NULL));
    return x;
}

int main(void)
{
    coll_comm *comm, *row, *column;
    const int width = 2;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm);

    /* Ranks with the same color meet, in the order of their keys. */
    check(coll_comm_split(comm, rank / width, rank, &row, NULL));
    check(coll_comm_split(comm, rank % width, rank, &column, NULL));
    const int in_row = sum(row, rank), in_column = sum(column, rank);
    printf("rank %d is rank %d of its row, whose sum is %d, and %d of its "
           "column, %d\n",
           rank, coll_comm_user_rank(row), in_row, coll_comm_user_rank(column),
           in_column);
    const int all = sum(comm, coll_comm_user_rank(column) ? 0 : in_column);
    const int n = coll_comm_count(comm);

    check(coll_comm_destroy(column));
    check(coll_comm_destroy(row));
    check(coll_comm_destroy(comm));
    return all != n * (n - 1) / 2;
}
