/* SPDX-License-Identifier: MIT */
/* The bootstrap over real sockets and processes. What its state machines do is
 * in bootstrap_test.c.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/id.h"
#include "bootstrap/tcp.h"

struct part { /* what a forked rank does after it joined */
    int rank, n;
    double seconds;
    int (*then)(struct bootstrap *, int rank, int n);
};

static pid_t fork_rank(const coll_unique_id *id, struct part part)
{
    const pid_t pid = fork();
    if (pid)
        return pid;
    struct bootstrap *b;
    alarm(60);
    const coll_status status =
        bootstrap_join(&b, id, part.rank, part.n, "a test", part.seconds);
    if (!part.then) /* is to fail, and to name rank 1 */
        _exit(!(status == COLL_ERR_PEER && strstr(fail_sentence(), "rank 1")));
    if (status != COLL_OK) {
        fprintf(stderr, "rank %d: %s\n", part.rank, fail_sentence());
        _exit(2);
    }
    _exit(part.then(b, part.rank, part.n));
}

static int failures(int n, const pid_t *pids)
{
    int failed = 0;
    for (int r = 0; r < n; r++) {
        int status;
        waitpid(pids[r], &status, 0);
        failed += status != 0;
    }
    return failed;
}

static int gather(struct bootstrap *b, int rank, int n)
{
    for (int k = 0; k < 5; k++) {
        const size_t bytes = (size_t)1 << 4 * k; /* to 64 KiB */
        unsigned char *mine = malloc(bytes), *all = malloc(bytes * (size_t)n);
        memset(mine, rank + k, bytes);
        if (bootstrap_allgather(b, mine, all, bytes) != COLL_OK)
            return 1;
        for (size_t i = 0; i < bytes * (size_t)n; i++)
            if (all[i] != (unsigned char)(i / bytes + (size_t)k))
                return 1;
        free(mine);
        free(all);
    }
    bootstrap_leave(b);
    return 0;
}

/* The hub runs in a process of its own: a fork of one in which its thread runs
 * may inherit a lock that nobody will release (the sanitizers' allocator). */
static coll_unique_id new_id(void)
{
    coll_unique_id id;
    int ends[2];
    const pid_t parent = getpid();
    cr_assert_eq(pipe(ends), 0);
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && bootstrap_create_id(&id, "lo", 5) == COLL_OK
            && write(ends[1], &id, sizeof(id)) == sizeof(id))
            pause();
        _exit(1);
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], &id, sizeof(id)), (ssize_t)sizeof(id));
    close(ends[0]);
    return id;
}

Test(bootstrap_sockets, real_ranks_join_and_gather, .timeout = 60)
{
    const int sizes[] = {1, 2, 4, 16};
    for (int i = 0; i < 4; i++) {
        pid_t pids[16];
        const coll_unique_id id = new_id();
        for (int r = 0; r < sizes[i]; r++)
            pids[r] = fork_rank(&id, (struct part){r, sizes[i], 5, gather});
        cr_assert_eq(failures(sizes[i], pids), 0, "%d ranks", sizes[i]);
    }
}

static int leave_soon(struct bootstrap *b, int rank, int n)
{
    (void)rank, (void)n;
    const double start = tcp_clock();
    bootstrap_leave(b);
    return tcp_clock() - start > 0.4;
}

/* A fork has the list of hubs, but not their threads: it waits for none. */
Test(bootstrap_sockets, a_fork_of_the_hubs_process_leaves_soon, .timeout = 60)
{
    int late = 3;
    for (int turn = 0; turn < 5 && late; turn++) { /* others may be busy */
        coll_unique_id id;
        pid_t pids[3];
        cr_assert_eq(bootstrap_create_id(&id, "lo", 5), COLL_OK);
        usleep(50000); /* its thread sleeps, and holds no lock */
        for (int r = 0; r < 3; r++)
            pids[r] = fork_rank(&id, (struct part){r, 3, 5, leave_soon});
        late = failures(3, pids);
    }
    cr_assert_eq(late, 0, "%d of 3 ranks", late);
}

Test(bootstrap_sockets, a_rank_that_never_comes_is_named, .timeout = 60)
{
    pid_t pids[2];
    const coll_unique_id id = new_id();
    pids[0] = fork_rank(&id, (struct part){0, 3, .5, NULL});
    pids[1] = fork_rank(&id, (struct part){2, 3, .5, NULL});
    cr_assert_eq(failures(2, pids), 0);
}

static int learn(struct bootstrap *b, int rank, int n)
{
    char all[8], mine = 0;
    if (bootstrap_allgather(b, &mine, all, 1) != COLL_OK || n > 8)
        return 1; /* all have joined once this is through */
    if (rank == 1)
        kill(getpid(), SIGKILL);
    const double end = tcp_clock() + 10;
    while (bootstrap_failure(b) == COLL_OK && tcp_clock() < end)
        usleep(1000);
    const int good = bootstrap_failure(b) == COLL_ERR_PEER
                     && bootstrap_culprit(b) == 1
                     && strstr(bootstrap_failure_sentence(b), "rank 1");
    bootstrap_leave(b);
    return !good;
}

Test(bootstrap_sockets, a_killed_rank_is_named_to_all, .timeout = 60)
{
    pid_t pids[4];
    const coll_unique_id id = new_id();
    for (int r = 0; r < 4; r++)
        pids[r] = fork_rank(&id, (struct part){r, 4, 5, learn});
    cr_assert_eq(failures(4, pids), 1); /* itself */
}

/* It has lost another one, it says, and lives itself. */
static int hear_of_loss(struct bootstrap *b, int rank, int n)
{
    char all[8], mine = 0;
    if (bootstrap_allgather(b, &mine, all, 1) != COLL_OK || n > 8)
        return 1;
    if (rank == 1)
        bootstrap_abort(b, COLL_ERR_PEER, "the connection to rank 2 is lost");
    const double end = tcp_clock() + 10;
    while (bootstrap_failure(b) == COLL_OK && tcp_clock() < end)
        usleep(1000);
    const int good = bootstrap_failure(b) == COLL_ERR_PEER
                     && bootstrap_culprit(b) == BOOTSTRAP_NOBODY
                     && strstr(bootstrap_failure_sentence(b), "is lost");
    bootstrap_leave(b);
    return !good;
}

Test(bootstrap_sockets, who_has_lost_another_is_not_gone, .timeout = 60)
{
    pid_t pids[3];
    const coll_unique_id id = new_id();
    for (int r = 0; r < 3; r++)
        pids[r] = fork_rank(&id, (struct part){r, 3, 5, hear_of_loss});
    cr_assert_eq(failures(3, pids), 0);
}

static int connect_to(const coll_unique_id *packed)
{
    struct id id;
    struct sockaddr_storage a;
    cr_assert(id_unpack(packed, &id));
    const socklen_t length = id_socket_address(&id, 0, &a);
    const int fd =
        socket(id.addresses[0].family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, length), 0);
    return fd;
}

/* Seconds until a rank has joined and done its work beside strangers. */
static double among_strangers(void)
{
    const coll_unique_id id = new_id();
    const char http[] = "GET /metrics HTTP/1.1\r\n\r\n";
    int silent[10];
    pid_t pids[2];
    pids[0] = fork_rank(&id, (struct part){0, 2, 5, gather});
    for (int i = 0; i < 10; i++)
        silent[i] = connect_to(&id);
    for (int i = 0; i < 100; i++) {
        const int fd = connect_to(&id);
        if (i % 2)
            cr_assert_gt(send(fd, http, sizeof(http), MSG_NOSIGNAL), 0);
        close(fd);
    }
    const double begin = tcp_clock();
    pids[1] = fork_rank(&id, (struct part){1, 2, 5, gather});
    cr_assert_eq(failures(2, pids), 0);
    const double took = tcp_clock() - begin;
    for (int i = 0; i < 10; i++)
        close(silent[i]);
    return took;
}

Test(bootstrap_sockets, strangers_disturb_nobody, .timeout = 60)
{
    double least = among_strangers();
    for (int i = 0; i < 4 && least >= 1; i++) /* a busy machine disturbs too */
        least = fmin(least, among_strangers());
    cr_assert_lt(least, 1);
}

Test(bootstrap_sockets, roots_are_checked)
{
    const char *const bad[] = {
        "",       "host",  ":1",      "h:",    "h:0",  "h:65536",        "h:1x",
        "::1:80", "[::1]", "[::1]80", "[]:80", "[::1", "no such host:80"};
    coll_unique_id a, b, c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(bootstrap_id_from_root(bad[i], "", &a), COLL_ERR_INVALID,
                     "%s", bad[i]);
        cr_assert(strstr(fail_sentence(), "HOST:PORT"), "%s", fail_sentence());
    }
    cr_assert_eq(bootstrap_id_from_root("127.0.0.1:80", "x", &a), COLL_OK);
    cr_assert_eq(bootstrap_id_from_root("127.0.0.1:80", "x", &b), COLL_OK);
    cr_assert_eq(bootstrap_id_from_root("127.0.0.1:80", "y", &c), COLL_OK);
    cr_assert_arr_eq(a.bytes, b.bytes, sizeof(a));
    cr_assert(memcmp(a.bytes, c.bytes, sizeof(a)));
    cr_assert_eq(bootstrap_id_from_root("[::1]:80", "", &a), COLL_OK);
}

Test(bootstrap_sockets, a_taken_port_and_a_foreign_root_are_errors)
{
    coll_unique_id id;
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(a);
    char root[64];
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    snprintf(root, sizeof(root), "127.0.0.1:%d", ntohs(a.sin_port));
    cr_assert_eq(bootstrap_id_from_root(root, "", &id), COLL_OK);
    cr_assert_eq(bootstrap_serve(&id, 1), COLL_ERR_SYSTEM);
    cr_assert(strstr(fail_sentence(), root), "%s", fail_sentence());
    close(fd);
    cr_assert_eq(bootstrap_id_from_root("192.0.2.1:4711", "", &id), COLL_OK);
    cr_assert_eq(bootstrap_serve(&id, 1), COLL_ERR_SYSTEM);
    cr_assert_eq(bootstrap_create_id(&id, "nosuch0", 1), COLL_ERR_INVALID);
    cr_assert(strstr(fail_sentence(), "lo"), "%s", fail_sentence());
}
