/* SPDX-License-Identifier: MIT */
#include "ranks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int *marks; /* in memory that all ranks share */

void mark_rank(void)
{
    atomic_fetch_add(marks, 1);
}

void await_marks(int ranks)
{
    static const struct timespec pause = {0, 1000000};
    for (int ms = 0; ms < 60000 && atomic_load(marks) < ranks; ms++)
        nanosleep(&pause, NULL);
}

void await_failure(const coll_comm *comm)
{
    static const struct timespec pause = {0, 1000000};
    for (int ms = 0; ms < 20000 && coll_comm_get_async_error(comm) == COLL_OK;
         ms++)
        nanosleep(&pause, NULL);
}

static void share_marks(void)
{
    if (!marks)
        marks = mmap(NULL, sizeof(*marks), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (marks == MAP_FAILED)
        abort();
    atomic_store(marks, 0);
}

/* A port that nobody uses now. */
static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0
        || getsockname(fd, (struct sockaddr *)&a, &length) < 0)
        abort();
    close(fd);
    return ntohs(a.sin_port);
}

static void set_number(const char *name, const char *prefix, int x)
{
    char text[64];
    snprintf(text, sizeof(text), "%s%d", prefix, x);
    setenv(name, text, 1);
}

static int be_rank(int rank, int nranks, int port, const char *const *settings,
                   rank_fn *fn)
{
    coll_comm *comm;
    alarm(240);
    set_number("COLL_RANK", "", rank);
    set_number("COLL_NRANKS", "", nranks);
    set_number("COLL_ROOT", "127.0.0.1:", port);
    for (; settings && *settings; settings++)
        putenv((char *)*settings);
    if (coll_comm_init(&comm) != COLL_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, coll_last_error(NULL));
        return 100;
    }
    const int result = fn(comm, rank, nranks);
    if (coll_comm_destroy(comm) != COLL_OK && result == 0) {
        fprintf(stderr, "rank %d: destroy: %s\n", rank, coll_last_error(NULL));
        return 101;
    }
    return result;
}

int run_ranks(int nranks, const char *const *settings, rank_fn *fn)
{
    const int port = free_port();
    int failed = 0;
    pid_t pids[64];
    share_marks();
    fflush(NULL);
    for (int r = 0; r < nranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            const int result = be_rank(r, nranks, port, settings, fn);
            fflush(NULL);
            _exit(result); /* a leak checker misjudges forked processes */
        }
    }
    for (int r = 0; r < nranks; r++) {
        int status = -1;
        if (pids[r] < 0 || waitpid(pids[r], &status, 0) < 0 || status != 0)
            failed++;
    }
    return failed;
}
