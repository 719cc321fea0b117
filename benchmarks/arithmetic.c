/* SPDX-License-Identifier: MIT */
/* Steps of nothing but arithmetic in registers, after each of which all ranks
 * meet: what is lost as processors are not equally fast all the time, for
 * scaling.py.
 *
 *     coll_arithmetic MILLISECONDS LOG
 *
 * A step is as many rounds as take rank 0 about so long at the start. Rank 0
 * writes a line of JSON for each, with these rounds and the milliseconds that
 * it took, until it is ended. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRAM "coll_arithmetic"
#include "small.h"

enum { CHAINS = 8 }; /* that do not wait for each other */

/* Returns something, so that it is worked out. */
static double compute(uint64_t rounds, double factor)
{
    double x[CHAINS] = {0}, sum = 0;
    for (uint64_t i = 0; i < rounds; i++)
        for (int k = 0; k < CHAINS; k++)
            x[k] = x[k] * factor + 1;
    for (int k = 0; k < CHAINS; k++)
        sum += x[k];
    return sum;
}

int main(int argc, char **argv)
{
    const uint64_t some = 10000000;
    coll_comm *comm;
    const double ms = argc == 3 ? strtod(argv[1], NULL) : 0;
    if (!(ms > 0 && ms <= 1e6))
        fail("valid is coll_arithmetic MILLISECONDS LOG, more than 0 and at "
             "most 1e6");
    volatile double factor = 0.5; /* which no compiler knows */
    volatile double sum = 0;
    check(coll_comm_init(&comm));
    FILE *const log =
        coll_comm_user_rank(comm) == 0 ? fopen(argv[2], "we") : NULL;
    if (coll_comm_user_rank(comm) == 0 && !log)
        fail("the log cannot be written");
    double begin = now();
    sum = compute(some, factor);
    uint64_t rounds =
        (uint64_t)((double)some * ms * 1e-3 / (now() - begin)) + 1;
    check(coll_broadcast(&rounds, &rounds, 1, COLL_U64, 0, comm, NULL));
    for (;;) {
        begin = now();
        sum = sum + compute(rounds, factor);
        check(coll_barrier(comm, NULL));
        if (log
            && (fprintf(log, "{\"rounds\": %" PRIu64 ", \"step_ms\": %.6g}\n",
                        rounds, 1e3 * (now() - begin))
                    < 0
                || fflush(log) != 0))
            fail("the log cannot be written");
    }
}
