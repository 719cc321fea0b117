/* SPDX-License-Identifier: MIT */
/* Ranks that are threads of one process, without a launcher.
 *
 *   cc threads.c $(pkg-config --cflags --libs coll) -pthread -o threads
 *   ./threads
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

enum { RANKS = 3 };

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "threads: %s\n", coll_last_error(NULL));
    exit(1);
}

static void *work(void *context)
{
    coll_comm *comm = context; /* this thread's alone */
    int sum, rank = coll_comm_user_rank(comm);
    check(coll_allreduce(&rank, &sum, 1, COLL_I32, COLL_SUM, comm, NULL));
    printf("rank %d of %d: the sum is %d\n", rank, coll_comm_count(comm), sum);
    check(coll_comm_destroy(comm)); /* waits for the others, too */
    return sum == RANKS * (RANKS - 1) / 2 ? NULL : "wrong";
}

int main(void)
{
    coll_comm *comms[RANKS];
    pthread_t threads[RANKS];
    void *wrong = NULL;
    check(coll_comm_init_all(comms, RANKS));
    for (int r = 0; r < RANKS; r++)
        pthread_create(&threads[r], NULL, work, comms[r]);
    for (int r = 0; r < RANKS && !wrong; r++)
        pthread_join(threads[r], &wrong);
    return wrong != NULL;
}
