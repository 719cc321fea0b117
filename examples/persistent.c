/* SPDX-License-Identifier: MIT */
/* A sum that is made once and started at each step, while the program computes.
 *
 *   cc persistent.c $(pkg-config --cflags --libs coll) -o persistent
 *   collrun -n 4 ./persistent
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

enum { STEPS = 10, COUNT = 10000 };

static double mine[COUNT], sum[COUNT];

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "persistent: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    coll_comm *comm;
    coll_request *request;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);

    check(coll_allreduce_init(mine, sum, COUNT, COLL_F64, COLL_SUM, comm,
                              &request));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++)
            mine[i] = rank + step;
        check(coll_start(request));
        /* Here it computes what does not need the sum. */
        check(coll_wait(&request)); /* it may then be started again */
    }
    printf("rank %d of %d: the last sum is %g\n", rank, n, sum[COUNT - 1]);
    check(coll_request_free(&request));
    check(coll_comm_destroy(comm));
    return sum[COUNT - 1] != n * (n - 1) / 2 + n * (STEPS - 1);
}
