/* SPDX-License-Identifier: MIT */
/* A number goes round the ring of ranks; then each rank gives its right
 * neighbour a vector, and takes that of the left one.
 *
 *   cc send_recv.c $(pkg-config --cflags --libs coll) -o send_recv
 *   collrun -n 4 ./send_recv
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "send_recv: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    enum { TOKEN, ROW, LENGTH = 1000 }; /* two tags */
    coll_comm *comm;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;

    int token = 0;
    if (rank > 0)
        check(coll_recv(&token, 1, COLL_I32, left, TOKEN, comm, NULL, NULL));
    token += rank;
    check(coll_send(&token, 1, COLL_I32, right, TOKEN, comm, NULL));
    if (rank == 0)
        check(coll_recv(&token, 1, COLL_I32, left, TOKEN, comm, NULL, NULL));

    double mine[LENGTH], from_left[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        mine[i] = rank + i;
    check(coll_group_start()); /* so nobody waits before all have begun */
    check(coll_send(mine, LENGTH, COLL_F64, right, ROW, comm, NULL));
    check(coll_recv(from_left, LENGTH, COLL_F64, left, ROW, comm, NULL, NULL));
    check(coll_group_end());

    if (from_left[LENGTH - 1] != left + LENGTH - 1
        || (rank == 0 && token != n * (n - 1) / 2)) {
        fprintf(stderr, "send_recv: what came is not what was sent\n");
        return 1;
    }
    printf("rank %d of %d: what came is what was sent\n", rank, n);
    check(coll_comm_destroy(comm));
    return 0;
}
