/* SPDX-License-Identifier: MIT */
/* Communicators split off from others, whose ranks are threads of one process.
 * Prints TAP. A program of its own for the same reason as comm_threads.c. */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"
#include "coll/coll.h"
#include "rank_threads.h"
#include "thorough.h"

enum { MAX_RANKS = 8 };

#define NEED(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("# line %d, rank %d of %d: %s: %s\n", __LINE__, rank, n,    \
                   #condition, coll_last_error(NULL));                         \
            return 1;                                                          \
        }                                                                      \
    } while (0)

/* Whether a sum over ranks that give `mine` is right, short and long. */
static int sums_to(coll_comm *comm, int mine, int sum)
{
    enum { LONG = 30000 };
    static _Thread_local int x[LONG];
    for (size_t count = 1; count <= LONG; count *= LONG) {
        for (size_t i = 0; i < count; i++)
            x[i] = mine;
        if (coll_allreduce(x, x, count, COLL_I32, COLL_SUM, comm, NULL))
            return 0;
        for (size_t i = 0; i < count; i++)
            if (x[i] != sum)
                return 0;
    }
    return 1;
}

/* Ranks by color = rank % 3, the last color in none, by falling rank. */
static int groups(coll_comm *comm, int rank, int n)
{
    coll_comm *group, *alone;
    const int color = rank % 3 == 2 ? COLL_SPLIT_NOCOLOR : rank % 3;
    int count = 0, sum = 0, after = 0;
    for (int r = rank % 3; r < n; r += 3) {
        count++;
        sum += r;
        after += r > rank;
    }
    NEED(coll_comm_split(comm, color, -rank, &group, NULL) == COLL_OK);
    NEED((group == NULL) == (color < 0));
    if (group) {
        NEED(coll_comm_count(group) == count);
        NEED(coll_comm_user_rank(group) == after);
        NEED(sums_to(group, rank, sum));
    }
    NEED(coll_comm_split(comm, rank, 0, &alone, NULL) == COLL_OK);
    NEED(coll_comm_count(alone) == 1 && sums_to(alone, rank, rank));
    NEED(sums_to(comm, rank, n * (n - 1) / 2));
    NEED(coll_comm_destroy(alone) == COLL_OK);
    NEED(coll_comm_destroy(group) == COLL_OK);
    return 0;
}

/* Equal keys keep the order; a copy of a half outlives it. */
static int copies(coll_comm *comm, int rank, int n)
{
    coll_comm *copy, *half, *second;
    const int color = rank < n / 2;
    const int first = color ? 0 : n / 2, last = color ? n / 2 : n;
    const int sum = (last - first) * (first + last - 1) / 2;
    NEED(sums_to(comm, 1, n));
    NEED(coll_comm_dup(comm, &copy) == COLL_OK);
    NEED(coll_comm_user_rank(copy) == rank && coll_comm_count(copy) == n);
    NEED(coll_comm_split(copy, color, 7, &half, NULL) == COLL_OK);
    NEED(coll_comm_user_rank(half) == rank - first);
    NEED(coll_comm_dup(half, &second) == COLL_OK);
    NEED(coll_comm_destroy(half) == COLL_OK);
    NEED(coll_comm_destroy(copy) == COLL_OK);
    NEED(sums_to(second, rank, sum));
    NEED(sums_to(comm, 1, n));
    NEED(coll_comm_destroy(second) == COLL_OK);
    return 0;
}

/* Requests are under way when the ranks come, at different times. */
static int outstanding(coll_comm *comm, int rank, int n)
{
    enum { REQUESTS = 4, COUNT = 50000 };
    static _Thread_local float x[REQUESTS][COUNT];
    coll_request *request[REQUESTS];
    coll_comm *copy;
    for (int k = 0; k < REQUESTS; k++)
        for (int i = 0; i < COUNT; i++)
            x[k][i] = (float)(rank + k);
    for (int k = 0; k < REQUESTS; k++)
        NEED(!coll_allreduce(x[k], x[k], COUNT, COLL_F32, COLL_SUM, comm,
                             &request[k]));
    for (int k = 0; k < REQUESTS && rank % 2; k++)
        NEED(coll_wait(&request[k]) == COLL_OK);
    NEED(coll_comm_dup(comm, &copy) == COLL_OK);
    for (int k = 0; k < REQUESTS; k++)
        NEED(coll_wait(&request[k]) == COLL_OK);
    for (int k = 0; k < REQUESTS; k++)
        NEED(x[k][COUNT - 1] == (float)(n * (n - 1) / 2 + n * k));
    NEED(coll_comm_destroy(copy) == COLL_OK);
    return 0;
}

/* One rank's mistake is told to all; nothing is lost by it. */
static int mistakes(coll_comm *comm, int rank, int n)
{
    coll_comm *group = NULL;
    coll_config config = COLL_CONFIG_INITIALIZER;
    NEED(coll_comm_split(comm, rank == 1 ? -5 : 0, 0, &group, NULL)
         == COLL_ERR_INVALID);
    NEED(!strcmp(coll_last_error(NULL),
                 "coll_comm_split: rank 1: color -5: valid is 0 or more, "
                 "COLL_SPLIT_NOCOLOR or COLL_SPLIT_HOST"));
    config.algorithm = rank == 2 ? "rign" : NULL;
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_INVALID);
    NEED(strstr(coll_last_error(NULL), "coll_comm_split: rank 2: coll_config.")
         && strstr(coll_last_error(NULL), "did you mean ring?"));
    config.algorithm = rank == 2 ? "ring" : NULL; /* found when all meet */
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_MISMATCH);
    NEED(strstr(coll_last_error(NULL), "coll_config.algorithm"));
    config = (coll_config)COLL_CONFIG_INITIALIZER;
    config.determinism = rank == 1 ? "ful" : "full";
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_INVALID);
    NEED(strstr(coll_last_error(NULL), "rank 1: coll_config.determinism=ful "));
    config.determinism = rank == 1 ? "run" : "full";
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_MISMATCH);
    NEED(strstr(coll_last_error(NULL), "coll_config.determinism"));
    config = (coll_config)COLL_CONFIG_INITIALIZER;
    config.op_seconds = -1;
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_INVALID);
    config.size = 3;
    NEED(coll_comm_split(comm, 0, 0, &group, &config) == COLL_ERR_INVALID);
    NEED(coll_comm_dup(comm, rank == 0 ? NULL : &group) == COLL_ERR_INVALID);
    NEED(strstr(coll_last_error(NULL), "rank 0: newcomm is NULL"));
    NEED(group == NULL && sums_to(comm, 1, n));
    return 0;
}

/* Pages that all have, at an address of each; then again of its own. */
static int in_common(coll_comm *comm, int rank, int n)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    int *x = aligned_alloc(bytes, bytes);
    void *handle;
    x[n] = 40 + rank;
    NEED(coll_comm_share(comm, x, bytes, &handle) == COLL_OK && x[n] == 40);
    x[rank] = rank;
    NEED(coll_barrier(comm, NULL) == COLL_OK);
    for (int r = 0; r < n; r++)
        NEED(x[r] == r);
    NEED(coll_barrier(comm, NULL) == COLL_OK);
    NEED(coll_comm_deregister(comm, handle) == COLL_OK);
    x[0] += rank;
    NEED(sums_to(comm, x[0], n * (n - 1) / 2));
    free(x);
    return 0;
}

static int configured(coll_comm *comm, int rank, int n)
{
    coll_comm *ring, *copy;
    coll_choice choice;
    coll_config config = COLL_CONFIG_INITIALIZER;
    config.algorithm = "ring";
    config.op_seconds = 30;
    NEED(coll_comm_split(comm, 0, 0, &ring, &config) == COLL_OK);
    NEED(coll_comm_dup(ring, &copy) == COLL_OK);
    NEED(!coll_explain(copy, "allreduce", 1, COLL_F32, COLL_SUM, &choice));
    NEED(!strcmp(choice.algorithm, "ring"));
    NEED(sums_to(copy, 1, n) && sums_to(ring, 1, n));
    NEED(coll_comm_destroy(copy) == COLL_OK);
    NEED(coll_comm_destroy(ring) == COLL_OK);
    return 0;
}

/* As f16 is to be where somebody asks for an order. */
static bool rounds_once(coll_comm *comm)
{
    coll_choice choice;
    return !coll_explain(comm, "allreduce", 1, COLL_F16, COLL_SUM, &choice)
           && !strncmp(choice.algorithm, "in_order", 8);
}

/* Rules that leave what needs a node leave one rank whatever it has, also where
 * somebody asks for an order; of those for others it keeps what it can. */
static int rules_of_one(coll_comm *comm, int rank, int n)
{
    static const char *const full[] = {"off", "full"};
    coll_comm *alone;
    coll_choice choice;
    coll_config config = COLL_CONFIG_INITIALIZER;
    (void)n;
    for (int i = 0; i < 2; i++) {
        config.determinism = full[i];
        config.algorithm = "node_inline,node_direct";
        NEED(coll_comm_split(comm, rank, 0, &alone, &config) == COLL_OK);
        NEED(sums_to(alone, 7, 7));
        NEED(coll_barrier(alone, NULL) == COLL_OK);
        NEED(coll_comm_destroy(alone) == COLL_OK);
    }
    config.determinism = "off";
    config.algorithm = "allreduce:ring";
    NEED(coll_comm_split(comm, rank, 0, &alone, &config) == COLL_OK);
    NEED(coll_explain(alone, "allreduce", 9, COLL_I32, COLL_SUM, &choice)
         == COLL_OK);
    NEED(!strcmp(choice.algorithm, "ring"));
    NEED(coll_comm_destroy(alone) == COLL_OK);
    return 0;
}

/* Messages add in any order unless somebody asks for one. */
static int repeatable(coll_comm *comm, int rank, int n)
{
    coll_comm *plain, *full, *copy, *off;
    coll_config config = COLL_CONFIG_INITIALIZER;
    (void)rank;
    config.algorithm = "^node_inline,node_direct";
    NEED(coll_comm_split(comm, 0, 0, &plain, &config) == COLL_OK);
    config.determinism = "full";
    NEED(coll_comm_split(comm, 0, 0, &full, &config) == COLL_OK);
    NEED(coll_comm_dup(full, &copy) == COLL_OK);
    config.determinism = "off";
    NEED(coll_comm_split(full, 0, 0, &off, &config) == COLL_OK);
    NEED(!rounds_once(plain) && rounds_once(full) && rounds_once(copy)
         && !rounds_once(off));
    NEED(sums_to(plain, 1, n) && sums_to(full, 1, n) && sums_to(copy, 1, n)
         && sums_to(off, 1, n));
    NEED(coll_comm_destroy(off) == COLL_OK);
    NEED(coll_comm_destroy(copy) == COLL_OK);
    NEED(coll_comm_destroy(full) == COLL_OK);
    NEED(coll_comm_destroy(plain) == COLL_OK);
    return 0;
}

/* A rank that aborts while others split ends their wait. */
static int aborts(coll_comm *comm, int rank, int n)
{
    coll_comm *copy;
    coll_barrier(comm, NULL); /* whoever is last may hear of it here */
    if (rank == 0)
        return coll_comm_abort(comm) != COLL_OK;
    NEED(coll_comm_dup(comm, &copy) == COLL_ERR_ABORTED);
    return 0;
}

/* Ranks that go on without the last one, beside it, and then with it again. */
static int shrinks(coll_comm *comm, int rank, int n)
{
    const int last = n - 1;
    static coll_unique_id id; /* of all ranks */
    coll_comm *fewer, *again;
    if (rank == last) {
        NEED(coll_get_unique_id(&id) == COLL_OK);
        coll_barrier(comm, NULL);
        NEED(coll_comm_grow(NULL, n, &id, rank, &again, NULL) == COLL_OK);
    } else {
        coll_barrier(comm, NULL);
        NEED(coll_comm_shrink(comm, &last, 1, &fewer, NULL, 0) == COLL_OK);
        NEED(coll_comm_count(fewer) == last && sums_to(fewer, 1, last));
        NEED(coll_comm_grow(fewer, n, &id, -1, &again, NULL) == COLL_OK);
        NEED(coll_comm_destroy(fewer) == COLL_OK);
    }
    NEED(sums_to(again, rank, n * last / 2));
    NEED(coll_comm_destroy(again) == COLL_OK);
    return 0;
}

/* --- a thread for each communicator of each rank ----------------------------
 */

enum { COMMS = 3, ROUNDS = 30 };

struct worker {
    pthread_t id;
    coll_comm *comm;
    int rank, n, wrong;
};

/* Sums, and communicators that come and go, beside the others'. */
static void *work(void *context)
{
    struct worker *w = context;
    coll_comm *copy;
    for (int k = 0; k < ROUNDS && !w->wrong; k++)
        w->wrong |=
            !sums_to(w->comm, w->rank + k, w->n * (w->n - 1) / 2 + w->n * k);
    for (int k = 0; k < 3 && !w->wrong; k++)
        w->wrong |= coll_comm_dup(w->comm, &copy) || !sums_to(copy, 1, w->n)
                    || coll_comm_destroy(copy);
    return NULL;
}

static int side_by_side(coll_comm *comm, int rank, int n)
{
    struct worker workers[COMMS];
    for (int k = 0; k < COMMS; k++) {
        workers[k] = (struct worker){.rank = rank, .n = n};
        NEED(coll_comm_dup(comm, &workers[k].comm) == COLL_OK);
    }
    /* Each rank starts with another one. */
    for (int k = 0; k < COMMS; k++) {
        struct worker *w = &workers[(rank + k) % COMMS];
        pthread_create(&w->id, NULL, work, w);
    }
    NEED(sums_to(comm, 1, n));
    for (int k = 0; k < COMMS; k++)
        pthread_join(workers[k].id, NULL);
    for (int k = 0; k < COMMS; k++)
        NEED(!workers[k].wrong
             && coll_comm_destroy(workers[k].comm) == COLL_OK);
    return 0;
}

/* --- coll_comm_init_all() --------------------------------------------------
 */

static void *be_one_of_all(void *context)
{
    struct worker *w = context;
    w->wrong = coll_comm_user_rank(w->comm) != w->rank
               || coll_comm_count(w->comm) != w->n
               || !sums_to(w->comm, w->rank, w->n * (w->n - 1) / 2)
               || groups(w->comm, w->rank, w->n) || coll_comm_destroy(w->comm);
    return NULL;
}

static int all_at_once(int n)
{
    coll_comm *comms[MAX_RANKS];
    struct worker workers[MAX_RANKS];
    int wrong = 0;
    if (coll_comm_init_all(comms, n) != COLL_OK)
        return 0;
    for (int r = 0; r < n; r++) {
        workers[r] = (struct worker){.comm = comms[r], .rank = r, .n = n};
        pthread_create(&workers[r].id, NULL, be_one_of_all, &workers[r]);
    }
    for (int r = 0; r < n; r++) {
        pthread_join(workers[r].id, NULL);
        wrong |= workers[r].wrong;
    }
    return !wrong;
}

static int init_all_refuses(void)
{
    coll_comm *comms[2];
    return coll_comm_init_all(NULL, 2) == COLL_ERR_INVALID
           && coll_comm_init_all(comms, 0) == COLL_ERR_INVALID;
}

static int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Hubs may end after their ranks. */
static int nothing_stays(int files, int threads)
{
    for (int i = 0; i < 20000; i++) {
        if (entries("/proc/self/fd") <= files
            && entries("/proc/self/task") <= threads)
            return 1;
        usleep(1000);
    }
    printf("# %d files, %d before; %d threads, %d before\n",
           entries("/proc/self/fd"), files, entries("/proc/self/task"),
           threads);
    return 0;
}

static int by_hosts(void)
{
    int good = 1;
    for (nhosts = thorough() ? 2 : 3; nhosts <= 3; nhosts++)
        good &= run(4, groups) && run(5, copies) && run(4, outstanding)
                && run(4, side_by_side);
    nhosts = 1;
    return good;
}

int main(void)
{
    int failed = 0;
    printf("1..14\n");
    failed += report(all_at_once(1) && all_at_once(2) && init_all_refuses(),
                     "init_all makes ranks of threads, or says why not");
    const int files = entries("/proc/self/fd");
    const int threads = entries("/proc/self/task");
    failed += report(run(1, groups) && run(2, groups) && run(MAX_RANKS, groups),
                     "split groups by color and orders by key");
    failed += report(run(2, copies) && run(5, copies), "dup of a split of dup");
    failed += report(run(2, outstanding) && run(5, outstanding),
                     "requests may be outstanding");
    failed += report(run(3, mistakes), "a rank's mistake is told to all alike");
    failed += report(run(1, configured) && run(3, configured),
                     "a config holds, and is inherited");
    failed += report(run(2, in_common) && run(5, in_common),
                     "pages are all threads' and then each one's");
    failed += report(run(3, repeatable), "repeatable sums are one's own");
    failed += report(run(3, rules_of_one), "rules leave one rank something");
    failed += report(run(3, aborts), "an abort ends the wait for others");
    failed += report(run(2, shrinks) && run(5, shrinks),
                     "some go on without one, and take it in again");
    failed += report(run(2, side_by_side) && run(4, side_by_side),
                     "several at once, of several threads, in any order");
    failed += report(by_hosts(), "all this is right on two and three hosts");
    failed += report(nothing_stays(files, threads), "no file or thread stays");
    return failed > 0;
}
