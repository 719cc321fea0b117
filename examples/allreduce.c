/* SPDX-License-Identifier: MIT */
/* Every rank brings its number; every rank leaves with the sum.
 *
 *   cc allreduce.c $(pkg-config --cflags --libs coll) -o allreduce
 *   collrun -n 4 ./allreduce
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "allreduce: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    coll_comm *comm;
    check(coll_comm_init(&comm)); /* the environment says who takes part */
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);

    double numbers[1000], sums[1000];
    for (int i = 0; i < 1000; i++)
        numbers[i] = rank + i;
    check(coll_allreduce(numbers, sums, 1000, COLL_F64, COLL_SUM, comm, NULL));

    for (int i = 0; i < 1000; i++)
        if (sums[i] != n * (n - 1) / 2.0 + (double)n * i) {
            fprintf(stderr, "allreduce: sum %d is %g\n", i, sums[i]);
            return 1;
        }
    printf("rank %d of %d: the sums are right\n", rank, n);
    check(coll_comm_destroy(comm));
    return 0;
}
