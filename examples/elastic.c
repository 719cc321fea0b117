/* SPDX-License-Identifier: MIT */
/* A job that goes on when one of its ranks dies: rank 0, before its third step.
 *
 *   cc elastic.c $(pkg-config --cflags --libs coll) -o elastic
 *   collrun -n 4 --keep-going ./elastic
 *
 * A step that fails may have ended well at some ranks. So those that are left
 * agree on the step to go on from, and each keeps what its last steps began
 * with: here all, a number each.
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

/* Puts a communicator of those that are left in place of *comm; returns the
 * first step that one of them has not done. */
static int go_on(coll_comm **comm, int step)
{
    coll_comm *fewer;
    printf("rank %d: %s\n", coll_comm_user_rank(*comm), coll_last_error(*comm));
    check(coll_comm_shrink(*comm, NULL, 0, &fewer, NULL, COLL_SHRINK_DEFAULT));
    coll_comm_destroy(*comm); /* an error, as not all left in order */
    *comm = fewer;
    check(coll_allreduce(&step, &step, 1, COLL_I32, COLL_MIN, fewer, NULL));
    printf("goes on as rank %d of %d with step %d\n",
           coll_comm_user_rank(fewer), coll_comm_count(fewer), step);
    return step;
}

int main(void)
{
    coll_comm *comm;
    int sums[STEPS + 1] = {0}; /* when a step begins */
    check(coll_comm_init(&comm));
    const int may_die =
        coll_comm_user_rank(comm) == 0 && coll_comm_count(comm) > 1;
    for (int step = 0; step < STEPS;) {
        int one = 1, ranks;
        if (step == 2 && may_die)
            _Exit(0); /* without a word */
        if (coll_allreduce(&one, &ranks, 1, COLL_I32, COLL_SUM, comm, NULL)
            < 0) {
            step = go_on(&comm, step);
            continue;
        }
        sums[step + 1] = sums[step] + ranks;
        step++;
    }
    int all[2] = {sums[STEPS], -sums[STEPS]};
    check(coll_allreduce(all, all, 2, COLL_I32, COLL_MIN, comm, NULL));
    check(coll_comm_destroy(comm));
    printf("%d steps of ranks make %d\n", STEPS, sums[STEPS]);
    return all[0] != -all[1]; /* all have the same */
}
