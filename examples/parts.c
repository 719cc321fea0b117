/* SPDX-License-Identifier: MIT */
/* Each rank has found another number of things; every rank leaves with all.
 *
 *   cc parts.c $(pkg-config --cflags --libs coll) -o parts
 *   collrun -n 4 ./parts
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "parts: %s\n", coll_last_error(NULL));
    exit(1);
}

int main(void)
{
    coll_comm *comm;
    check(coll_comm_init(&comm));
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const uint64_t found = 3 * (uint64_t)rank + 1;
    uint64_t *counts = calloc((size_t)n, sizeof(*counts)), all = 0;
    double *mine = calloc(found, sizeof(*mine));

    check(coll_allgather(&found, counts, 1, COLL_U64, comm, NULL));
    size_t *lengths = calloc((size_t)n, sizeof(*lengths));
    for (int r = 0; r < n; r++)
        all += lengths[r] = counts[r];
    for (uint64_t i = 0; i < found; i++)
        mine[i] = rank;
    double *everything = calloc(all, sizeof(*everything));
    check(coll_allgather_v(mine, everything, lengths, NULL, COLL_F64, comm,
                           NULL)); /* one behind another, by rank */

    printf("rank %d of %d: %d things, the last of rank %g\n", rank, n, (int)all,
           everything[all - 1]);
    check(coll_comm_destroy(comm));
    const int wrong = everything[all - 1] != n - 1 || everything[0] != 0;
    free(everything);
    free(lengths);
    free(mine);
    free(counts);
    return wrong;
}
