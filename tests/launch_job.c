/* SPDX-License-Identifier: MIT */
/* A rank of launch_test.py: is in two jobs, one after the other. */
#include <stdio.h>

#include "coll/coll.h"

int main(void)
{
    for (int i = 0; i < 2; i++) {
        coll_comm *comm;
        int sum = 1;
        if (coll_comm_init(&comm) != COLL_OK
            || coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_SUM, comm, NULL)
                   != COLL_OK) {
            fprintf(stderr, "launch_job: %s\n", coll_last_error(NULL));
            return 1;
        }
        printf("rank %d of %d\n", coll_comm_user_rank(comm), sum);
        fflush(stdout);
        if (coll_comm_destroy(comm) != COLL_OK)
            return 1;
    }
    return 0;
}
