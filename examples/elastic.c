/* SPDX-License-Identifier: MIT */
/* A job that goes on when one of its ranks dies: rank 0, in its third step.
 *
 *   cc elastic.c $(pkg-config --cflags --libs coll) -o elastic
 *   collrun -n 4 --keep-going ./elastic
 *
 * The step in which it died is done again by those that are left. Here it died
 * before that step's allreduce, so that this failed on all of them; a program
 * that cannot know this asks how far all are, by an allreduce of the least step
 * in the new communicator, and has kept what that step began with.
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

enum { STEPS = 5 };

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "elastic: %s\n", coll_last_error(NULL));
    exit(1);
}

/* Whoever is left goes on with a communicator of their own. */
static void go_on(coll_comm **comm)
{
    coll_comm *fewer;
    printf("rank %d: %s\n", coll_comm_user_rank(*comm), coll_last_error(*comm));
    check(coll_comm_shrink(*comm, NULL, 0, &fewer, NULL, COLL_SHRINK_DEFAULT));
    coll_comm_destroy(*comm); /* an error, as not all left in order */
    *comm = fewer;
    printf("goes on as rank %d of %d\n", coll_comm_user_rank(fewer),
           coll_comm_count(fewer));
}

int main(void)
{
    coll_comm *comm;
    int sum = 0, lost = 0;
    check(coll_comm_init(&comm));
    const int n = coll_comm_count(comm);
    for (int step = 0; step < STEPS;) {
        int one = 1, ranks;
        if (step == 2 && !lost && n > 1 && coll_comm_user_rank(comm) == 0)
            _Exit(0); /* without a word */
        if (coll_allreduce(&one, &ranks, 1, COLL_I32, COLL_SUM, comm, NULL)
            == COLL_OK) {
            sum += ranks;
            step++;
        } else {
            go_on(&comm);
            lost++;
        }
    }
    check(coll_comm_destroy(comm));
    printf("%d steps of ranks make %d\n", STEPS, sum);
    return sum != (n > 1 ? 2 * n + (STEPS - 2) * (n - 1) : STEPS);
}
