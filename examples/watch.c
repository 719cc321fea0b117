/* SPDX-License-Identifier: MIT */
/* What a program can ask: what a call would run, what it has moved, and whether
 * all is well while it is busy with something else.
 *
 *   cc watch.c $(pkg-config --cflags --libs coll) -o watch
 *   collrun -n 4 ./watch
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

static float x[1 << 16];

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "watch: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    enum { COUNT = 1 << 16, CALLS = 5 };
    coll_comm *comm;
    coll_choice choice;
    coll_statistics done;
    check(coll_comm_init(&comm));

    check(coll_explain(comm, "allreduce", COUNT, COLL_F32, COLL_SUM, &choice));
    for (int i = 0; i < CALLS; i++)
        check(coll_allreduce(x, x, COUNT, COLL_F32, COLL_SUM, comm, NULL));
    check(coll_comm_get_async_error(comm)); /* as any thread may ask */
    check(coll_stats_of(comm, "allreduce", &done));

    if (coll_comm_user_rank(comm) == 0)
        printf("%s: %d sums, %g ms, %g bytes read\n", choice.algorithm,
               (int)done.operations, done.seconds * 1e3,
               (double)done.bytes_read);
    check(coll_comm_destroy(comm));
    return done.operations != CALLS || done.vector_bytes != CALLS * sizeof(x);
}
