/* SPDX-License-Identifier: MIT */
/* Communicators whose ranks are threads of one process. Prints TAP.
 *
 * A program of its own, since Criterion cannot start under the thread
 * sanitizer, which is who should see this.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"
#include "coll/coll.h"
#include "rank_threads.h"

enum { MAX_RANKS = 8 };

/* Says where it is wrong. */
static int told(int wrong, const coll_comm *comm, size_t count)
{
    if (wrong)
        printf("# rank %d of %d, count %zu: %s\n", coll_comm_user_rank(comm),
               coll_comm_count(comm), count, coll_last_error(comm));
    return wrong;
}

static int sums(coll_comm *comm, int rank, int n)
{
    for (size_t count = 1; count < 100000; count = 3 * count + 1) {
        int *x = malloc(count * sizeof(int)), wrong = 0;
        for (size_t i = 0; i < count; i++)
            x[i] = rank + (int)i;
        if (coll_allreduce(x, x, count, COLL_I32, COLL_SUM, comm, NULL))
            wrong = 1;
        for (size_t i = 0; i < count; i++)
            wrong |= x[i] != n * (n - 1) / 2 + n * (int)i;
        free(x);
        if (told(wrong, comm, count))
            return 1;
    }
    return 0;
}

/* Parts gathered from all ranks, dealt to them, and exchanged in place. */
static int moves(coll_comm *comm, int rank, int n)
{
    const size_t m = (size_t)n, mine = (size_t)rank;
    for (size_t count = 0; count < 40000; count = 3 * count + 1) {
        const int root = (int)(count % m);
        const size_t all = m * count;
        int *x = malloc((all + 1) * sizeof(int)), wrong = 0;
        int *y = malloc((all + 1) * sizeof(int));
        for (size_t i = 0; i < all; i++)
            x[i] = (int)(mine * all + i);
        wrong |=
            coll_gather(x + mine * count, y, count, COLL_I32, root, comm, NULL);
        for (size_t i = 0; i < all && rank == root; i++)
            wrong |= (size_t)y[i] != i / count * all + i;
        wrong |= coll_scatter(x, y, count, COLL_I32, root, comm, NULL);
        for (size_t i = 0; i < count; i++)
            wrong |= (size_t)y[i] != (size_t)root * all + mine * count + i;
        wrong |= coll_alltoall(x, x, count, COLL_I32, comm, NULL);
        for (size_t i = 0; i < all; i++)
            wrong |= (size_t)x[i] != i / count * all + mine * count + i % count;
        free(x);
        free(y);
        if (told(wrong, comm, count))
            return 1;
    }
    return 0;
}

static int requests(coll_comm *comm, int rank, int n)
{
    enum { REQUESTS = 8, COUNT = 3000 };
    double x[REQUESTS][COUNT];
    coll_request *request[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            x[k][i] = rank + k + i;
        /* Ever longer, so that scratch grows while others run. */
        if (coll_allreduce(x[k], x[k],
                           (size_t)COUNT / REQUESTS * (size_t)(k + 1), COLL_F64,
                           COLL_SUM, comm, &request[k]))
            return 1;
    }
    for (int k = REQUESTS - 1; k >= 0; k--)
        if (coll_wait(&request[k]) != COLL_OK)
            return 1;
    for (int k = 0; k < REQUESTS; k++)
        if (x[k][7] != n * (n - 1) / 2 + n * (k + 7))
            return 1;
    return 0;
}

/* Every other collective, on vectors that grow. */
static int others(coll_comm *comm, int rank, int n)
{
    int wrong = 0;
    for (size_t count = 1; count < 20000; count = 3 * count + 1) {
        const size_t all = count * (size_t)n, mine = count * (size_t)rank;
        const int sum = n * (n - 1) / 2, root = (int)count % n;
        int *x = malloc(all * sizeof(int));
        int *y = malloc(all * sizeof(int));
        for (size_t i = 0; i < count; i++)
            x[mine + i] = rank + (int)i;
        wrong |= coll_allgather(x + mine, x, count, COLL_I32, comm, NULL);
        for (size_t i = 0; i < all; i++)
            wrong |= x[i] != (int)(i / count + i % count);
        wrong |=
            coll_reduce_scatter(x, y, count, COLL_I32, COLL_SUM, comm, NULL);
        for (size_t i = 0; i < count; i++)
            wrong |= y[i] != n * x[mine + i];
        wrong |= coll_reduce(x + mine, y, count, COLL_I32, COLL_SUM, root, comm,
                             NULL);
        for (size_t i = 0; i < count && rank == root; i++)
            wrong |= y[i] != sum + n * (int)i;
        wrong |= coll_broadcast(y, y, count, COLL_I32, root, comm, NULL);
        for (size_t i = 0; i < count; i++)
            wrong |= y[i] != sum + n * (int)i;
        wrong |= coll_barrier(comm, NULL);
        free(x);
        free(y);
    }
    if (wrong)
        printf("# rank %d of %d: %s\n", rank, n, coll_last_error(comm));
    return wrong != 0;
}

static void *abort_soon(void *comm)
{
    const struct timespec ms = {0, 20000000};
    nanosleep(&ms, NULL);
    coll_comm_abort(comm);
    return NULL;
}

/* Rank 0 waits for ever for the others, until a thread beside it aborts. */
/* Parts that differ in length: rank r's is r times as long, and lies r elements
 * farther than behind the one before it. */
static int parts(coll_comm *comm, int rank, int n)
{
    int wrong = 0;
    for (size_t count = 1; count < 20000; count = 3 * count + 1) {
        size_t counts[MAX_RANKS], displs[MAX_RANKS], end = 0;
        for (int r = 0; r < n; r++) {
            counts[r] = (size_t)r * count;
            displs[r] = end + (size_t)r;
            end = displs[r] + counts[r];
        }
        int *x = calloc(end + 1, sizeof(int)),
            *y = malloc((end + 1) * sizeof(int));
        coll_request *request;
        for (size_t i = 0; i < counts[rank]; i++)
            x[displs[rank] + i] = rank + (int)i;
        wrong |= coll_allgather_v(x + displs[rank], x, counts, displs, COLL_I32,
                                  comm, &request);
        wrong |= coll_wait(&request);
        for (int r = 0; r < n; r++)
            for (size_t i = 0; i < counts[r]; i++)
                wrong |= x[displs[r] + i] != r + (int)i;
        for (size_t i = 0; i < end; i++)
            x[i] = (int)i;
        wrong |=
            coll_reduce_scatter_v(x, y, counts, COLL_I32, COLL_SUM, comm, NULL);
        const size_t first = displs[rank] - (size_t)(rank * (rank + 1) / 2);
        for (size_t i = 0; i < counts[rank]; i++)
            wrong |= y[i] != n * (int)(first + i);
        wrong |= coll_scatter_v(x, counts, displs, y, counts[rank], COLL_I32,
                                n - 1, comm, NULL);
        for (size_t i = 0; i < counts[rank]; i++)
            wrong |= y[i] != (int)(displs[rank] + i);
        memset(x, 0, end * sizeof(int));
        wrong |= coll_gather_v(y, counts[rank], x, counts, displs, COLL_I32, 0,
                               comm, NULL);
        for (int r = 0; r < n && rank == 0; r++)
            for (size_t i = 0; i < counts[r]; i++)
                wrong |= x[displs[r] + i] != (int)(displs[r] + i);
        free(x);
        free(y);
        if (told(wrong, comm, count))
            return 1;
    }
    return 0;
}

static int aborts(coll_comm *comm, int rank, int n)
{
    float x = 0;
    pthread_t id;
    (void)n;
    if (rank == 0) {
        pthread_create(&id, NULL, abort_soon, comm);
        const coll_status status =
            coll_allreduce(&x, &x, 1, COLL_F32, COLL_SUM, comm, NULL);
        pthread_join(id, NULL);
        return status != COLL_ERR_ABORTED;
    }
    while (coll_comm_get_async_error(comm) == COLL_OK)
        usleep(1000);
    return !strstr(coll_last_error(comm), "rank 0");
}

static int open_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* One rank with an id: its hub is told, too. */
static int alone(void)
{
    coll_unique_id id;
    coll_comm *comm;
    return !coll_get_unique_id(&id) && !coll_comm_init_rank(&comm, 1, id, 0)
           && !coll_comm_destroy(comm);
}

static int come_and_go(void)
{
    int good = run(2, sums);
    const int before = open_files();
    for (int i = 0; i < 20; i++)
        good &= run(2, requests) && alone();
    /* A hub may end after its ranks. */
    for (int i = 0; i < 10000 && open_files() > before; i++)
        usleep(1000);
    if (open_files() > before)
        printf("# %d files open, %d before\n", open_files(), before);
    return good && open_files() <= before;
}

static int by_hosts(void)
{
    int good = 1;
    for (nhosts = 2; nhosts <= 3; nhosts++)
        good &=
            run(4, sums) && run(4, others) && run(4, parts) && run(4, requests);
    nhosts = 1;
    return good;
}

int main(void)
{
    int failed = 0;
    printf("1..9\n");
    failed += report(run(1, sums) && run(2, sums) && run(3, sums),
                     "sums are right on 1, 2 and 3 threads");
    failed += report(run(MAX_RANKS, sums), "and on more than processors");
    failed += report(run(2, moves) && run(3, moves) && run(MAX_RANKS, moves),
                     "parts go where they belong");
    failed += report(run(1, others) && run(3, others) && run(MAX_RANKS, others),
                     "so are the other collectives");
    failed += report(run(1, parts) && run(3, parts) && run(MAX_RANKS, parts),
                     "and those with parts that differ in length");
    failed += report(run(3, requests), "many requests run in order");
    failed += report(run(3, aborts), "abort from another thread ends all");
    failed += report(by_hosts(), "all this is right on two and three hosts");
    failed += report(come_and_go(), "communicators leave no file open");
    return failed > 0;
}
