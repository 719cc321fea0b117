/* SPDX-License-Identifier: MIT */
/* A job of allreduces that does what its words say, one after another:
 *
 *   steps_job FOLDER STEP...
 *
 *   100x65536  a hundred allreduces of 65536 bytes, each result checked
 *   =RULES     algorithms, in the words of COLL_ALGO; "=" for free choice
 *   @NAME      makes the file FOLDER/NAME when all ranks are here, and goes on
 *              when it is gone: the laboratory has done its part (marks.py)
 *
 * Every rank prints what each operation took, in microseconds, in a line. What
 * it ran is told by COLL_LOG=select:debug, one line each, on stderr.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coll/coll.h"

enum { PATIENCE_MS = 20000 };

static coll_comm *comm;
static int rank, nranks;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "steps_job: rank %d: %s: %s\n", rank, what, why);
    exit(1);
}

static void check(const char *what, coll_status status)
{
    if (status != COLL_OK)
        stop(what, coll_last_error(NULL));
}

static double clock_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

/* Differs from rank to rank, from element to element and from operation to
 * operation. */
static int32_t value(int r, size_t i, long number)
{
    return (int32_t)(i % 1021) + 7 * r + (int32_t)(number % 8191);
}

static void allreduce(int32_t *x, size_t count, long number)
{
    const int32_t ranks = 7 * nranks * (nranks - 1) / 2;
    for (size_t i = 0; i < count; i++)
        x[i] = value(rank, i, number);
    const double begun = clock_us();
    check("allreduce",
          coll_allreduce(x, x, count, COLL_I32, COLL_SUM, comm, NULL));
    printf("%.1f\n", clock_us() - begun);
    for (size_t i = 0; i < count; i++)
        if (x[i] != nranks * value(0, i, number) + ranks)
            stop("allreduce", "a wrong sum");
}

static void allreduces(const char *step, long times, size_t bytes)
{
    static long number; /* of all steps */
    int32_t *const x = malloc(bytes);
    if (!x)
        stop(step, "no memory");
    for (long k = 0; k < times; k++)
        allreduce(x, bytes / sizeof(*x), number++);
    free(x);
}

static void wait_until_gone(const char *path)
{
    for (int ms = 0; access(path, F_OK) == 0; ms += 2) {
        if (ms > PATIENCE_MS)
            stop(path, "the laboratory does not remove it");
        usleep(2000);
    }
}

static void mark(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    check("barrier", coll_barrier(comm, NULL));
    if (rank == 0) {
        const int fd =
            open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            stop(path, "cannot be made");
        close(fd);
        wait_until_gone(path);
    }
    check("barrier", coll_barrier(comm, NULL));
}

static void take(const char *folder, const char *step)
{
    long times;
    size_t bytes;
    int length = 0;
    if (*step == '@' && step[1])
        mark(folder, step + 1);
    else if (*step == '=')
        check(step, coll_comm_set_algorithm(comm, step + 1));
    else if (sscanf(step, "%ldx%zu%n", &times, &bytes, &length) == 2
             && !step[length] && times > 0 && bytes >= sizeof(int32_t))
        allreduces(step, times, bytes);
    else
        stop(step, "valid is TIMESxBYTES, =RULES or @NAME");
}

int main(int argc, char **argv)
{
    if (argc < 3)
        stop("usage", "steps_job FOLDER STEP...");
    check("coll_comm_init", coll_comm_init(&comm));
    rank = coll_comm_user_rank(comm);
    nranks = coll_comm_count(comm);
    for (int i = 2; i < argc; i++)
        take(argv[1], argv[i]);
    check("coll_comm_destroy", coll_comm_destroy(comm));
    return 0;
}
