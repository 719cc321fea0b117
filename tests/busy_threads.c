/* SPDX-License-Identifier: MIT */
/* A communicator that is in use: every other call of it is refused, and harms
 * nothing. Prints TAP; a program of its own for the thread sanitizer. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"
#include "coll/coll.h"
#include "coll/log.h"
#include "rank_threads.h"

static atomic_int refused;  /* so many intruders, every call */
static atomic_int recorded; /* a call in the group of one of them */
static atomic_int wrong;

static void expect_busy(coll_status status, const char *call)
{
    char words[64];
    snprintf(words, sizeof(words), "coll_%s: rank 0 is inside another", call);
    if (status == COLL_ERR_BUSY && strstr(coll_last_error(NULL), words))
        return;
    printf("# %s: %s, %s\n", call, coll_status_string(status),
           coll_last_error(NULL));
    atomic_fetch_add(&wrong, 1);
}

struct target {
    coll_comm *comm;
    coll_request *request;    /* of it, outstanding */
    coll_request *persistent; /* of it, not started */
    coll_op op;               /* of it */
};

static void collectives(coll_comm *c)
{
    float x[4] = {0}, y[4];
    coll_request *none = NULL;
    expect_busy(coll_allreduce(x, y, 1, COLL_F32, COLL_SUM, c, NULL),
                "allreduce");
    expect_busy(coll_reduce(x, y, 1, COLL_F32, COLL_SUM, 0, c, &none),
                "reduce");
    expect_busy(coll_broadcast(x, y, 1, COLL_F32, 0, c, NULL), "broadcast");
    expect_busy(coll_reduce_scatter(x, y, 1, COLL_F32, COLL_SUM, c, &none),
                "reduce_scatter");
    expect_busy(coll_allgather(x, y, 1, COLL_F32, c, NULL), "allgather");
    expect_busy(coll_gather(x, y, 1, COLL_F32, 0, c, NULL), "gather");
    expect_busy(coll_scatter(x, y, 1, COLL_F32, 0, c, &none), "scatter");
    expect_busy(coll_alltoall(x, y, 1, COLL_F32, c, NULL), "alltoall");
    expect_busy(coll_barrier(c, NULL), "barrier");
    expect_busy(coll_send(x, 1, COLL_F32, 1, 0, c, NULL), "send");
    expect_busy(coll_recv(y, 1, COLL_F32, 1, 0, c, NULL, &none), "recv");
    expect_busy(coll_barrier_init(c, &none), "barrier");
    if (none)
        atomic_fetch_add(&wrong, 1);
}

static void v_calls(coll_comm *c)
{
    const size_t ones[2] = {1, 1};
    float x[4] = {0}, y[4];
    coll_request *none = NULL;
    expect_busy(coll_allgather_v(x, y, ones, NULL, COLL_F32, c, NULL),
                "allgather_v");
    expect_busy(coll_reduce_scatter_v(x, y, ones, COLL_F32, COLL_SUM, c, &none),
                "reduce_scatter_v");
    expect_busy(coll_gather_v(x, 1, y, ones, NULL, COLL_F32, 0, c, NULL),
                "gather_v");
    expect_busy(coll_scatter_v(x, ones, NULL, y, 1, COLL_F32, 0, c, &none),
                "scatter_v");
    expect_busy(
        coll_alltoall_v(x, ones, NULL, y, ones, NULL, COLL_F32, c, NULL),
        "alltoall_v");
    if (none)
        atomic_fetch_add(&wrong, 1);
}

static void add(void *out, const void *a, const void *b, size_t count,
                coll_dtype dtype, void *context)
{
    (void)out, (void)a, (void)b, (void)count, (void)dtype, (void)context;
}

static void communicators(coll_comm *c, coll_op own)
{
    const float two = 2;
    coll_comm *other = NULL;
    coll_op op = COLL_SUM;
    expect_busy(coll_comm_split(c, 0, 0, &other, NULL), "comm_split");
    expect_busy(coll_comm_dup(c, &other), "comm_dup");
    expect_busy(coll_red_op_create(&op, add, NULL, 1, c), "red_op_create");
    expect_busy(coll_red_op_create_pre_mul_sum(&op, &two, COLL_F32, c),
                "red_op_create_pre_mul_sum");
    expect_busy(coll_red_op_destroy(own, c), "red_op_destroy");
    expect_busy(coll_comm_set_algorithm(c, "ring"), "comm_set_algorithm");
    expect_busy(coll_comm_finalize(c), "comm_finalize");
    expect_busy(coll_comm_destroy(c), "comm_destroy");
    if (other || op != COLL_SUM)
        atomic_fetch_add(&wrong, 1);
}

/* All calls that use a communicator, while another thread is in one. */
static void call_all(struct target *t)
{
    coll_comm *c = t->comm;
    coll_request *const before = t->request;
    coll_statistics stats;
    uint64_t messages;
    coll_choice choice;
    coll_candidate list[2];
    int n;
    collectives(c);
    v_calls(c);
    communicators(c, t->op);
    expect_busy(coll_test(&t->request), "test");
    expect_busy(coll_wait(&t->request), "wait");
    expect_busy(coll_wait_all(1, &t->request), "wait_all");
    expect_busy(coll_test_all(1, &t->request), "test_all");
    expect_busy(coll_wait_any(1, &t->request, &n), "wait_any");
    expect_busy(coll_test_any(1, &t->request, &n), "test_any");
    expect_busy(coll_start(t->persistent), "start");
    expect_busy(coll_stats(c, &stats), "stats");
    expect_busy(coll_stats_of(c, "allreduce", &stats), "stats_of");
    expect_busy(coll_stats_messages(c, NULL, &messages), "stats_messages");
    expect_busy(coll_explain(c, "allreduce", 1, COLL_F32, COLL_SUM, &choice),
                "explain");
    expect_busy(
        coll_explain_candidates(c, "allreduce", 1, COLL_F32, list, 2, &n),
        "explain_candidates");
    if (t->request != before)
        atomic_fetch_add(&wrong, 1);
    /* These any thread may call. */
    if (coll_comm_count(c) != 2 || coll_comm_user_rank(c) != 0
        || coll_comm_get_async_error(c) != COLL_OK || !coll_last_error(c))
        atomic_fetch_add(&wrong, 1);
}

static atomic_int inside;

/* The one that asks, as two would find each other. */
static void *intrude(void *context)
{
    struct target *t = context;
    coll_statistics stats;
    while (coll_stats(t->comm, &stats) == COLL_OK)
        usleep(100);
    atomic_store(&inside, 1);
    call_all(t);
    atomic_fetch_add(&refused, 1);
    return NULL;
}

/* Its group began before the call, and ends after it. */
static void *intrude_by_group(void *context)
{
    struct target *t = context;
    coll_group_start();
    if (coll_barrier(t->comm, NULL))
        atomic_fetch_add(&wrong, 1);
    atomic_store(&recorded, 1);
    while (!atomic_load(&inside))
        usleep(100);
    coll_status status = coll_group_end();
    expect_busy(status, "group_end");
    atomic_fetch_add(&refused, 1);
    while (status == COLL_ERR_BUSY) {
        usleep(100);
        status = coll_group_end();
    }
    if (status)
        atomic_fetch_add(&wrong, 1);
    return NULL;
}

/* Rank 0 waits in a barrier for rank 1, which waits until rank 0's other
 * threads were refused everything. */
static int two_threads(coll_comm *comm, int rank, int n)
{
    float x = 1, sum = 0;
    struct target t = {.comm = comm};
    pthread_t ids[2];
    if (coll_allreduce(&x, &sum, 1, COLL_F32, COLL_SUM, comm, &t.request)
        || coll_barrier_init(comm, &t.persistent)
        || coll_red_op_create(&t.op, add, NULL, 1, comm))
        return 1;
    if (rank == 0) {
        pthread_create(&ids[0], NULL, intrude_by_group, &t);
        while (!atomic_load(&recorded))
            usleep(100);
        pthread_create(&ids[1], NULL, intrude, &t);
    }
    while (rank != 0 && atomic_load(&refused) < 2)
        usleep(100);
    while (rank == 0 && coll_barrier(comm, NULL) == COLL_ERR_BUSY)
        usleep(10); /* an intruder asked just then */
    if (rank != 0 && (coll_barrier(comm, NULL) || coll_barrier(comm, NULL)))
        return 1;
    for (int i = 0; i < 2 && rank == 0; i++)
        pthread_join(ids[i], NULL);
    if (coll_wait(&t.request) || sum != (float)n || atomic_load(&wrong)
        || coll_request_free(&t.persistent) || coll_red_op_destroy(t.op, comm))
        return 1;
    /* The communicator is as it was. */
    return coll_allreduce(&x, &sum, 1, COLL_F32, COLL_SUM, comm, NULL)
           || sum != (float)n;
}

/* Threads that break the rule all the time: what gets in is right. */
enum { STORMERS = 3, CALLS = 300 };

static void *storm(void *comm)
{
    for (int done = 0; done < CALLS;) {
        int x = 1, sum = 0;
        const coll_status status =
            coll_allreduce(&x, &sum, 1, COLL_I32, COLL_SUM, comm, NULL);
        done += status == COLL_OK;
        if (status != COLL_ERR_BUSY && (status != COLL_OK || sum != 2))
            return comm;
    }
    return NULL;
}

static int storms(coll_comm *comm, int rank, int n)
{
    pthread_t id[STORMERS];
    void *bad = NULL;
    int sum = 0, all = 0;
    (void)rank, (void)n;
    for (int i = 0; i < STORMERS; i++)
        pthread_create(&id[i], NULL, storm, comm);
    for (int i = 0; i < STORMERS; i++) {
        pthread_join(id[i], &bad);
        sum += bad != NULL;
    }
    return coll_allreduce(&sum, &all, 1, COLL_I32, COLL_SUM, comm, NULL) || all;
}

/* A function that the library runs inside a call may not use its communicator:
 * here the hook for messages. */
static _Thread_local coll_comm *hooked;
static atomic_int heard;

static void call_in(coll_log_level level, const char *subject, const char *line,
                    void *context)
{
    coll_statistics stats;
    (void)level, (void)subject, (void)line, (void)context;
    coll_comm *comm = hooked;
    hooked = NULL; /* a refusal is a message too */
    if (!comm)
        return;
    expect_busy(coll_stats(comm, &stats), "stats");
    atomic_fetch_add(&heard, 1);
}

static int from_inside(coll_comm *comm, int rank, int n)
{
    float x = 1, sum = 0;
    if (coll_comm_set_algorithm(comm, "ring"))
        return 1;
    if (rank == 0)
        hooked = comm;
    return coll_allreduce(&x, &sum, 1, COLL_F32, COLL_SUM, comm, NULL)
           || sum != (float)n || (rank == 0 && atomic_load(&heard) != 1);
}

int main(void)
{
    int failed = 0;
    setenv("COLL_LOG", "select:debug", 1);
    coll_log_set_hook(call_in, NULL);
    printf("1..4\n");
    failed += report(run(2, two_threads),
                     "a second thread is refused every call, and harms none");
    failed += report(run(2, storms), "threads that do so all the time too");
    failed +=
        report(run(2, from_inside), "a call from inside a call is refused");
    failed += report(atomic_load(&wrong) == 0, "no refusal went wrong");
    return failed > 0;
}
