/* SPDX-License-Identifier: MIT */
#include "elastic.h"

#include <signal.h>
#include <time.h>

#include "hosts.h"

const char *const short_joins[] = {"COLL_JOIN_SECONDS=1", NULL};

void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

void die(int marks)
{
    await_marks(marks);
    raise(SIGKILL);
}

int sum(coll_comm *comm, int mine)
{
    if (coll_allreduce(&mine, &mine, 1, COLL_I32, COLL_SUM, comm, NULL))
        return -1;
    return mine;
}

int sums_right(coll_comm *comm, int n)
{
    enum { LONG = 200000 };
    static float x[LONG];
    for (int i = 0; i < LONG; i++)
        x[i] = 1;
    EXPECT(coll_comm_count(comm) == n, "%d ranks", coll_comm_count(comm));
    EXPECT(coll_allreduce(x, x, LONG, COLL_F32, COLL_SUM, comm, NULL)
               == COLL_OK,
           "a long allreduce");
    for (int i = 0; i < LONG; i++)
        EXPECT(x[i] == (float)n, "element %d is %g", i, (double)x[i]);
    return 0;
}
