/* SPDX-License-Identifier: MIT */
/* The helper thread (COLL_PROGRESS) beside the threads of a program.
 * Prints TAP; a program of its own for the thread sanitizer. */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"
#include "coll/coll.h"
#include "rank_threads.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether a thread of this process is called "coll progress". */
static bool is_helper(const char *id)
{
    char path[300], name[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", id);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const bool is =
        fgets(name, sizeof(name), file) && strcmp(name, "coll progress\n") == 0;
    fclose(file);
    return is;
}

/* How many are, and one of them. */
static int helpers_and(pid_t *one)
{
    int n = 0;
    struct dirent *e;
    DIR *dir = opendir("/proc/self/task");
    while ((e = readdir(dir)))
        if (is_helper(e->d_name)) {
            *one = (pid_t)atoi(e->d_name);
            n++;
        }
    closedir(dir);
    return n;
}

static int helpers(void)
{
    pid_t one;
    return helpers_and(&one);
}

/* The result comes while no rank is in a call of the library. */
static int while_nobody_calls(coll_comm *comm, int rank, int n, unsigned us,
                              int *late)
{
    enum { COUNT = 1 << 20 };
    float *in = malloc(COUNT * sizeof(float));
    float *out = malloc(COUNT * sizeof(float));
    coll_request *request;
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(rank + i % 100);
    /* The way is known and the ranks are here. */
    wrong |= coll_allreduce(in, out, COUNT, COLL_F32, COLL_SUM, comm, NULL);
    wrong |= coll_allreduce(in, out, COUNT, COLL_F32, COLL_SUM, comm, &request);
    usleep(us);
    /* So the first look finds it over, however little one call can do. */
    *late = coll_test(&request) == COLL_IN_PROGRESS;
    wrong |= helpers() != 1;
    wrong |= coll_wait(&request);
    for (int i = 0; i < COUNT; i++)
        wrong |= out[i] != (float)(n * (n - 1) / 2 + n * (i % 100));
    free(in);
    free(out);
    return wrong;
}

static int nobody_calls(coll_comm *comm, int rank, int n)
{
    return in_time(comm, rank, n, while_nobody_calls);
}

/* Communicators of the same ranks beside the given one, which the ranks use and
 * destroy in orders of their own. */
enum { COMMS = 5, REQUESTS = 6, COUNT = 3000 };
enum { WAITS = 30 }; /* seconds, for a process of its own */

static int use_one(coll_comm *comm, int rank, int n, unsigned *seed)
{
    static _Thread_local double x[REQUESTS][COUNT];
    coll_request *requests[REQUESTS];
    int wrong = 0, index;
    for (int k = 0; k < REQUESTS; k++) {
        for (int i = 0; i < COUNT; i++)
            x[k][i] = rank + k + i;
        wrong |= coll_allreduce(x[k], x[k], (size_t)(k * k * 80 + 1), COLL_F64,
                                COLL_SUM, comm, &requests[k]);
        if (rand_r(seed) % 4 == 0)
            usleep(rand_r(seed) % 500);
    }
    wrong |= coll_barrier(comm, NULL);
    for (int k = 0; k < REQUESTS; k++)
        switch (rand_r(seed) % 4) {
        case 0:
            wrong |= coll_wait(&requests[k]);
            break;
        case 1:
            while (coll_test(&requests[k]) == COLL_IN_PROGRESS)
                ;
            break;
        case 2:
            wrong |= coll_wait_any(REQUESTS, requests, &index);
            break;
        default:
            wrong |= coll_wait_all(k + 1, requests);
        }
    wrong |= coll_wait_all(REQUESTS, requests);
    for (int k = 0; k < REQUESTS; k++)
        wrong |= x[k][k * k * 80] != n * (n - 1) / 2 + n * (k + k * k * 80);
    return wrong;
}

/* Persistent requests, a sum and a message round the ring, at each start with
 * other values. */
static int start_often(coll_comm *comm, int rank, int n, unsigned *seed)
{
    static _Thread_local double x[COUNT], sums[COUNT], next[COUNT];
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;
    coll_request *r[3] = {NULL};
    int wrong =
        coll_allreduce_init(x, sums, COUNT, COLL_F64, COLL_SUM, comm, &r[0])
        || coll_recv_init(next, COUNT, COLL_F64, left, 0, comm, NULL, &r[1])
        || coll_send_init(x, COUNT, COLL_F64, right, 0, comm, &r[2]);
    for (int k = 0; k < 3 && !wrong; k++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = rank + k + i;
        for (int i = 0; i < 3; i++)
            wrong |= coll_start(r[i]);
        usleep(rand_r(seed) % 300);
        while (rand_r(seed) % 2 && coll_test(&r[0]) == COLL_IN_PROGRESS)
            ;
        wrong |= coll_wait_all(3, r);
        for (int i = 0; i < COUNT; i += 7)
            wrong |= sums[i] != n * (n - 1) / 2 + n * (k + i)
                     || next[i] != left + k + i;
    }
    for (int i = 0; i < 3; i++)
        wrong |= coll_request_free(&r[i]);
    return wrong;
}

struct user {
    pthread_t id;
    coll_comm *comm;
    int rank, n, wrong;
};

static void *use(void *context)
{
    struct user *u = context;
    unsigned seed = (unsigned)u->rank * 7 + 1;
    for (int k = 0; k < 15; k++)
        u->wrong |= use_one(u->comm, u->rank, u->n, &seed);
    u->wrong |= start_often(u->comm, u->rank, u->n, &seed);
    u->wrong |= coll_comm_destroy(u->comm) != COLL_OK;
    return NULL;
}

static int many_communicators(coll_comm *comm, int rank, int n)
{
    struct user users[COMMS];
    unsigned seed = (unsigned)rank;
    int wrong = 0;
    for (int c = 0; c < COMMS; c++) {
        coll_unique_id id = {{0}};
        wrong |= rank == 0 && coll_get_unique_id(&id);
        wrong |=
            coll_broadcast(&id, &id, sizeof(id), COLL_U8, 0, comm, NULL) != 0;
        users[c] = (struct user){.rank = rank, .n = n};
        if (wrong || coll_comm_init_rank(&users[c].comm, n, id, rank))
            return 1;
        pthread_create(&users[c].id, NULL, use, &users[c]);
    }
    for (int k = 0; k < 15; k++)
        wrong |= use_one(comm, rank, n, &seed);
    wrong |= start_often(comm, rank, n, &seed);
    for (int c = 0; c < COMMS; c++) {
        pthread_join(users[c].id, NULL);
        wrong |= users[c].wrong;
    }
    return wrong;
}

/* Processor time of the helper alone, in seconds: the ranks may be behind, and
 * a sanitizer has a thread of its own. */
static double used(void)
{
    char path[64];
    unsigned long long ns = 0;
    pid_t helper = 0;
    if (helpers_and(&helper) != 1)
        return NAN;
    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)helper);
    FILE *f = fopen(path, "r");
    const int n = f ? fscanf(f, "%llu", &ns) : 0;
    if (f)
        fclose(f);
    return n == 1 ? 1e-9 * (double)ns : NAN;
}

/* With nothing outstanding it takes no time; while a rank is late, little. */
static int rests(coll_comm *comm, int rank, int n)
{
    enum { LONG = 1 << 20 };
#ifdef __SANITIZE_THREAD__ /* each look takes longer; 0.5 is one that stays */
    const double late_max = .2;
#else
    const double late_max = .05;
#endif
    float *x = calloc(LONG, sizeof(float));
    coll_request *request = NULL;
    int wrong = 0;
    double before, idle, late;
    (void)n;
    wrong |= coll_allreduce(x, x, LONG, COLL_F32, COLL_SUM, comm, &request);
    wrong |= coll_wait(&request);
    usleep(50000);
    before = used();
    usleep(500000);
    idle = used() - before;
    if (rank == 0)
        wrong |= coll_allreduce(x, x, LONG, COLL_F32, COLL_SUM, comm, &request);
    usleep(50000);
    before = used();
    usleep(500000);
    late = used() - before;
    if (rank == 1)
        wrong |= coll_allreduce(x, x, LONG, COLL_F32, COLL_SUM, comm, &request);
    wrong |= coll_wait(&request);
    if (rank == 0)
        printf("# of a core: %.2f %% idle, %.2f %% while a rank is late\n",
               idle / .005, late / .005);
    free(x);
    return wrong || !(idle <= .005) || !(late <= late_max);
}

static void *abort_soon(void *comm)
{
    usleep(20000);
    coll_comm_abort(comm);
    return NULL;
}

/* A failure that the helper may be the first to meet. */
static int aborts(coll_comm *comm, int rank, int n)
{
    float x[1000] = {0};
    coll_request *request = NULL;
    pthread_t id;
    (void)n;
    if (rank == 0) {
        if (coll_allreduce(x, x, 1000, COLL_F32, COLL_SUM, comm, &request))
            return 1;
        pthread_create(&id, NULL, abort_soon, comm);
        usleep(60000);
        const coll_status status = coll_wait(&request);
        pthread_join(id, NULL);
        return status != COLL_ERR_ABORTED || request;
    }
    while (coll_comm_get_async_error(comm) == COLL_OK)
        usleep(1000);
    return 0;
}

/* Each waits for the other as the root, in the helper alone. */
static int differs(coll_comm *comm, int rank, int n)
{
    float x[1000] = {0};
    coll_request *request = NULL;
    const double until = now() + 2;
    (void)n;
    if (coll_broadcast(x, x, 1000, COLL_F32, 1 - rank, comm, &request))
        return 1;
    while (coll_comm_get_async_error(comm) == COLL_OK && now() < until)
        usleep(1000);
    const coll_status known = coll_comm_get_async_error(comm);
    return coll_wait(&request) != COLL_ERR_MISMATCH
           || known != COLL_ERR_MISMATCH;
}

/* Ends the process, or forks, with all under way. */
static int leaves_at_once(coll_comm *comm, int rank, int n)
{
    static float x[8][1 << 20];
    static coll_request *request[8]; /* what a leak checker finds is no leak */
    (void)n;
    for (int k = 0; k < 4; k++)
        if (coll_allreduce(x[2 * k + rank], x[2 * k + rank], 1 << 20, COLL_F32,
                           COLL_SUM, comm, &request[2 * k + rank]))
            return 1;
    if (rank == 0)
        exit(3);
    sleep(60); /* without end, as far as this process goes */
    return 1;
}

static int forks(coll_comm *comm, int rank, int n)
{
    float *x = calloc(1 << 20, sizeof(float));
    coll_request *request;
    int status = 0;
    int wrong =
        coll_allreduce(x, x, 1 << 20, COLL_F32, COLL_SUM, comm, &request);
    (void)n;
    if (rank == 0) {
        fflush(NULL);
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(WAITS);
            _exit(helpers() || !run(2, nobody_calls) || helpers() ? 1 : 4);
        }
        wrong |= waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 4;
    }
    wrong |= coll_wait(&request);
    free(x);
    return wrong;
}

static cpu_set_t everywhere; /* that this process may run */

/* Ranks that are bound to one processor, as those that compute. */
static int is_not_bound(coll_comm *comm, int rank, int n)
{
    float x = 1;
    coll_request *request;
    cpu_set_t first, found;
    pid_t helper = 0;
    int cpu = 0;
    (void)rank;
    while (!CPU_ISSET((size_t)cpu, &everywhere))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET((size_t)cpu, &first);
    CPU_ZERO(&found);
    int wrong = sched_setaffinity(0, sizeof(first), &first);
    wrong |= coll_allreduce(&x, &x, 1, COLL_F32, COLL_SUM, comm, &request);
    wrong |= helpers_and(&helper) != 1;
    wrong |= sched_getaffinity(helper, sizeof(found), &found);
    wrong |= !CPU_EQUAL(&found, &everywhere);
    wrong |= coll_wait(&request);
    return wrong || x != (float)n;
}

static int has_no_helper(coll_comm *comm, int rank, int n)
{
    float x = 1;
    coll_request *request;
    (void)rank;
    int wrong = coll_allreduce(&x, &x, 1, COLL_F32, COLL_SUM, comm, &request);
    wrong |= helpers() != 0;
    wrong |= coll_wait(&request);
    return wrong || x != (float)n;
}

/* Where nothing is set there is one between hosts only. */
static int helps_between_hosts(void)
{
    unsetenv("COLL_PROGRESS");
    const int none = run(2, has_no_helper);
    nhosts = 2;
    return none && run(2, nobody_calls);
}

/* As a process of its own, which is to end soon with that status. */
static int run_self(char *argument, int wanted)
{
    int status = 0;
    const double before = now();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(WAITS);
        execl("/proc/self/exe", "progress_threads", argument, (char *)NULL);
        _exit(1);
    }
    const int ended = waitpid(pid, &status, 0) == pid && WIFEXITED(status)
                      && WEXITSTATUS(status) == wanted;
    if (!ended)
        printf("# %s: status %x after %.1f s\n", argument, (unsigned)status,
               now() - before);
    return ended && now() - before < WAITS;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc > 1 && !strcmp(argv[1], "hosts"))
        return helps_between_hosts() ? 5 : 1;
    setenv("COLL_PROGRESS", "thread", 1);
    sched_getaffinity(0, sizeof(everywhere), &everywhere);
    if (argc > 1 && !strcmp(argv[1], "exit"))
        return run(2, leaves_at_once);
    if (argc > 1 && !strcmp(argv[1], "fork"))
        return run(2, forks) ? 5 : 1;
    printf("1..10\n");
    failed += report(run(2, nobody_calls), "a request ends without a call");
    nhosts = 2;
    failed += report(run(2, nobody_calls), "on two hosts too");
    nhosts = 1;
    failed += report(run(2, rests), "the helper sleeps");
    failed += report(run(2, many_communicators) && run(3, many_communicators),
                     "many communicators at once are served right");
    failed += report(run(2, aborts), "a failure reaches who waits");
    nhosts = 2;
    const int between = run(2, differs);
    nhosts = 1;
    failed += report(run(2, differs) && between,
                     "calls that differ are told where nobody calls");
    failed +=
        report(run(2, is_not_bound), "it may run wherever its process may");
    failed += report(helpers() == 0, "it ends with the last communicator");
    int ends = run_self("exit", 3);
    /* The thread sanitizer bears no threads in a child of fork(). The address
     * sanitizer does not see to its allocator's locks there: one that another
     * thread held at that moment is never released. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    ends &= run_self("fork", 5);
#endif
    failed += report(ends, "exit() and fork() are as without it");
    failed += report(run_self("hosts", 5), "unasked it helps between hosts");
    return failed > 0;
}
