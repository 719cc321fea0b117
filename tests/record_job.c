/* SPDX-License-Identifier: MIT */
/* Jobs for trace_test.py and ras_test.py: what a rank does is the first
 * argument. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coll/coll.h"

static coll_comm *comm;
static int rank;

static int sums(int n)
{
    double x = 1, y;
    for (int i = 0; i < n; i++)
        if (coll_allreduce(&x, &y, 1, COLL_F64, COLL_SUM, comm, NULL) < 0)
            return -1;
    return 0;
}

/* A child has the communicator, but is no rank: what it does there is not on
 * record, and nothing of the parent's goes when it does. */
static int fork_and_go_on(void)
{
    if (sums(5))
        return 1;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        coll_comm_abort(comm);
        coll_comm_destroy(comm);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    kill(getpid(), SIGKILL);
    return 1;
}

static int differ(void)
{
    double x[8] = {0}, y[8];
    const size_t lengths[64] = {3, 2, 1};
    /* Who is still in one of these may hear of what differs behind them. */
    if (sums(10)
        || coll_reduce_scatter_v(x, y, lengths, COLL_F64, COLL_MIN, comm, NULL))
        return 0;
    if (rank == 1)
        coll_reduce(x, y, 8, COLL_F64, COLL_MAX, 2, comm, NULL);
    else
        coll_allreduce(x, y, 8, COLL_F64, COLL_SUM, comm, NULL);
    return sums(1) == 0;
}

/* What coll_stats_of() says of 7 allreduces of a double and 3 allgathers of 4
 * from each rank. */
static int count(void)
{
    coll_statistics all, sum, gather, none;
    float in[4] = {0}, out[64];
    if (sums(7))
        return 1;
    for (int i = 0; i < 3; i++)
        if (coll_allgather(in, out, 4, COLL_F32, comm, NULL) < 0)
            return 1;
    const size_t lengths[64] = {0, 1, 2};
    coll_statistics scatter;
    if (coll_reduce_scatter_v(in, out, lengths, COLL_F32, COLL_MAX, comm, NULL)
            < 0
        || coll_stats_of(comm, "reduce_scatter", &scatter) < 0
        || scatter.operations != 1
        || scatter.vector_bytes
               != (coll_comm_count(comm) > 2 ? 3u : 1u) * sizeof(float))
        return 5;
    if (coll_stats(comm, &all) < 0 || coll_stats_of(comm, "allreduce", &sum) < 0
        || coll_stats_of(comm, "allgather", &gather) < 0
        || coll_stats_of(comm, "reduce", &none) < 0
        || coll_stats_of(comm, "algather", &none) != COLL_ERR_INVALID
        || !strstr(coll_last_error(NULL), "did you mean allgather?"))
        return 2;
    if (all.operations != 11 || sum.operations != 7 || gather.operations != 3
        || all.bytes_read
               != sum.bytes_read + gather.bytes_read + scatter.bytes_read
        || sum.vector_bytes != 7 * sizeof(double)
        || gather.vector_bytes != 3 * sizeof(in) * (size_t)coll_comm_count(comm)
        || none.operations || none.seconds > 0 || all.failures)
        return 3;
    return sum.seconds > 0 && gather.seconds > 0 && all.seconds < 60
                   && all.seconds > sum.seconds
               ? 0
               : 4;
}

/* Failures are counted with what failed: the last rank gives up. */
static int count_failures(void)
{
    coll_statistics sum;
    coll_request *requests[2];
    double x = 1, y[2];
    if (sums(2))
        return 1;
    if (rank == coll_comm_count(comm) - 1) {
        usleep(50000);
        coll_comm_abort(comm);
        return 0;
    }
    for (int i = 0; i < 2; i++)
        if (coll_allreduce(&x, &y[i], 1, COLL_F64, COLL_SUM, comm, &requests[i])
            < 0)
            return 2;
    coll_wait(&requests[0]);
    if (coll_wait(&requests[1]) >= 0 || coll_stats_of(comm, "allreduce", &sum))
        return 3;
    fprintf(stderr, "%d finished, %d failed\n", (int)sum.operations,
            (int)sum.failures);
    return 0;
}

/* Each rank sends its left one n short messages; then rank 0 waits for one
 * more, of another tag than rank 1 sends. */
static int messages(int n)
{
    enum { LONG = 100000 };
    static double x[LONG], y[LONG];
    const int nranks = coll_comm_count(comm);
    const int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
    for (int i = 0; i < n; i++)
        if (coll_send(x, 2, COLL_F64, left, 7, comm, NULL)
            || coll_recv(y, 4, COLL_F64, i % 2 ? right : COLL_ANY_SOURCE,
                         COLL_ANY_TAG, comm, NULL, NULL))
            return 1;
    if (rank == 1) { /* a long one in the same order, too */
        coll_request *request;
        coll_send(x, 1, COLL_F64, 0, 8, comm, NULL);
        coll_send(x, LONG, COLL_F64, 2, 3, comm, &request);
        coll_wait(&request);
    }
    if (rank == 0)
        coll_recv(y, 1, COLL_F64, 1, 9, comm, NULL, NULL);
    return sums(1) == 0;
}

static int act(const char *what, int n)
{
    if (!strcmp(what, "orderly"))
        return sums(n);
    if (!strcmp(what, "kill")) { /* the last rank, in the middle */
        if (sums(n))
            return 1;
        if (rank == coll_comm_count(comm) - 1) {
            usleep(50000); /* the others go on meanwhile, most likely */
            kill(getpid(), SIGKILL);
        }
        return sums(1) == 0;
    }
    if (!strcmp(what, "hang")) { /* the last rank does not come */
        if (sums(n))
            return 1;
        if (rank == coll_comm_count(comm) - 1)
            pause();
        return sums(1) == 0;
    }
    if (!strcmp(what, "slow")) { /* the last rank comes late */
        for (int i = 0; i < n; i++) {
            if (rank == coll_comm_count(comm) - 1)
                usleep(3000);
            if (sums(1))
                return 1;
        }
        return 0;
    }
    if (!strcmp(what, "linger")) { /* the last rank dies, the others stay */
        int failed = sums(n);      /* of who is not through when it dies */
        if (rank == coll_comm_count(comm) - 1)
            kill(getpid(), SIGKILL);
        while (!failed)
            failed = sums(1);
        pause();
    }
    if (!strcmp(what, "differ"))
        return differ();
    if (!strcmp(what, "messages"))
        return messages(n);
    if (!strcmp(what, "fork"))
        return fork_and_go_on();
    if (!strcmp(what, "count"))
        return count();
    if (!strcmp(what, "failures"))
        return count_failures();
    return 99;
}

int main(int argc, char **argv)
{
    if (argc < 2 || coll_comm_init(&comm) != COLL_OK) {
        fprintf(stderr, "record_job: %s\n", coll_last_error(NULL));
        return 1;
    }
    rank = coll_comm_user_rank(comm);
    const int result = act(argv[1], argc > 2 ? atoi(argv[2]) : 1);
    if (coll_comm_destroy(comm) != COLL_OK && result == 0)
        fprintf(stderr, "record_job: %s\n", coll_last_error(NULL));
    return result;
}
