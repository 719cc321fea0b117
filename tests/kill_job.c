/* SPDX-License-Identifier: MIT */
/* One rank of a job in which one is killed, for kill_test.py:
 *     kill_job POINT VICTIM [MICROSECONDS]
 * The others print what coll_last_error() says, and in how many seconds after
 * they came to that point; status 3. 0: nothing went wrong. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"

enum { LONG = 1 << 20 };

static int victim, rank;
static double begun;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void rest(long microseconds)
{
    nanosleep(&(struct timespec){microseconds / 1000000,
                                 microseconds % 1000000 * 1000},
              NULL);
}

static void *die_after(void *microseconds)
{
    rest(*(long *)microseconds);
    die();
    return NULL;
}

static void die_in(long *microseconds)
{
    pthread_t killer;
    if (pthread_create(&killer, NULL, die_after, microseconds))
        die();
}

static coll_status first_collective(coll_comm *comm)
{
    static float x[LONG];
    coll_request *request;
    coll_status status =
        coll_allreduce(x, x, LONG, COLL_F32, COLL_SUM, comm, &request);
    if (rank == victim)
        die();
    return status ? status : coll_wait(&request);
}

/* All to all, in messages that need their receivers. */
static coll_status group(coll_comm *comm)
{
    static float in[8][LONG / 8], out[LONG / 8];
    const int n = coll_comm_count(comm);
    coll_group_start();
    for (int r = 0; r < n; r++)
        if (r != rank) {
            coll_send(out, LONG / 8, COLL_F32, r, 0, comm, NULL);
            coll_recv(in[r], LONG / 8, COLL_F32, r, 0, comm, NULL, NULL);
        }
    coll_allreduce(out, out, 1, COLL_F32, COLL_SUM, comm, NULL);
    if (rank == victim)
        die();
    return coll_group_end();
}

/* The victim waits for the others when it dies. */
static coll_status finalize(coll_comm *comm)
{
    static long soon = 20000;
    if (rank == victim)
        die_in(&soon);
    else
        rest(15 * soon);
    begun = now();
    return coll_comm_destroy(comm);
}

static int tell(const coll_comm *comm)
{
    const double seconds = now() - begun;
    printf("%.3f %s\n", seconds, coll_last_error(comm));
    return 3;
}

int main(int argc, char **argv)
{
    coll_comm *comm;
    if (argc < 3)
        return 2;
    const char *point = argv[1];
    victim = atoi(argv[2]);
    rank = atoi(getenv("COLL_RANK"));
    if (!strcmp(point, "before") && rank == victim)
        die();
    long after = argc > 3 ? atol(argv[3]) : 0;
    if (after && rank == victim)
        die_in(&after);
    begun = now();
    if (coll_comm_init(&comm))
        return tell(NULL);
    coll_status status = COLL_OK;
    if (!strcmp(point, "init")) /* which may be over before that */
        status = coll_barrier(comm, NULL);
    begun = strcmp(point, "init") ? now() : begun;
    if (!strcmp(point, "collective"))
        status = first_collective(comm);
    else if (!strcmp(point, "group"))
        status = group(comm);
    if (status) {
        const int code = tell(comm);
        coll_comm_destroy(comm);
        return code;
    }
    if (strcmp(point, "finalize"))
        return coll_comm_destroy(comm) ? tell(NULL) : 0;
    return finalize(comm) ? tell(NULL) : 0;
}
