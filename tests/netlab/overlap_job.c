/* SPDX-License-Identifier: MIT */
/* How much of an allreduce hides behind what rank 0 computes meanwhile; the
 * other ranks only wait, so that the processors are not all taken.
 *
 *     overlap_job BYTES TIMES
 *
 * Rank 0 prints "alone compute both hidden idle": lower quartiles in ms, of the
 * operation, of arithmetic that takes as long, and of both at once; the
 * percentage of the former that is hidden; and what of a core the process takes
 * with nothing to do.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"

enum { MOST = 101 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double used(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec)
           + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void check(coll_status status)
{
    if (status == COLL_OK)
        return;
    fprintf(stderr, "overlap_job: %s\n", coll_last_error(NULL));
    exit(1);
}

static volatile uint64_t sink;

static void compute(long turns)
{
    uint64_t x = 1;
    for (long i = 0; i < turns; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
}

static long turns_for(double seconds)
{
    enum { TURNS = 1 << 22 };
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        const double start = now();
        compute(TURNS);
        least = now() - start < least ? now() - start : least;
    }
    return (long)(seconds / least * TURNS);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static coll_comm *comm;
static float *x;
static size_t count;

static double quartile(int times, int operates, long turns)
{
    double seconds[MOST];
    for (int i = 0; i < times; i++) {
        coll_request *request = NULL;
        check(coll_barrier(comm, NULL));
        const double start = now();
        if (operates)
            check(coll_allreduce(x, x, count, COLL_F32, COLL_MAX, comm,
                                 &request));
        compute(turns);
        check(coll_wait(&request));
        seconds[i] = now() - start;
    }
    qsort(seconds, (size_t)times, sizeof(seconds[0]), ascending);
    return seconds[times / 4];
}

int main(int argc, char **argv)
{
    const int times = argc > 2 ? atoi(argv[2]) : 0;
    if (times < 1 || times > MOST) {
        fprintf(stderr, "overlap_job BYTES TIMES, up to %d\n", MOST);
        return 2;
    }
    check(coll_comm_init(&comm));
    const int computes = coll_comm_user_rank(comm) == 0;
    count = strtoul(argv[1], NULL, 10) / sizeof(float);
    x = calloc(count, sizeof(float));
    if (!x)
        return 1;
    quartile(3, 1, 0); /* connects */
    const double alone = quartile(times, 1, 0);
    const long turns = computes ? turns_for(alone) : 0;
    const double alone_computing = quartile(times, 0, turns);
    const double both = quartile(times, 1, turns);
    const double before = used();
    usleep(500000);
    const double idle = (used() - before) / 0.5;
    if (computes)
        printf("%.2f %.2f %.2f %.1f %.2f\n", alone * 1e3, alone_computing * 1e3,
               both * 1e3, 100 * (alone + alone_computing - both) / alone,
               100 * idle);
    free(x);
    return coll_comm_destroy(comm);
}
