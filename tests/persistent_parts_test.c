/* SPDX-License-Identifier: MIT */
/* Persistent v-calls, sends and receives, on real processes. (By every
 * algorithm, and parts in any order: uneven_test.) */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocations.h"
#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"

enum {
    V_KINDS = 5,
    EACH = 200,
    LONG = 300000,
    POINTS = 4,
    CALLS = POINTS + V_KINDS,
    ROUNDS = 20,
    WARM = 2
};

/* Rank r's parts have EACH + r elements; of an alltoall_v also those for it.
 */
struct parts {
    size_t counts[8], before[9];
    float in[V_KINDS][8 * (EACH + 8)], out[V_KINDS][8 * (EACH + 8)];
    float to[LONG], from[LONG], one, other;
    coll_message heard[2];
};

/* kind: of V_KINDS, the root being the last rank. */
static coll_status v_call(int kind, bool keeps, struct parts *p, int rank,
                          int n, coll_comm *comm, coll_request **request)
{
    const float *in = p->in[kind];
    float *out = p->out[kind];
    size_t mine[8];
    for (int r = 0; r < n; r++)
        mine[r] = p->counts[rank];
    switch (kind) {
    case 0:
        return (keeps ? coll_allgather_v_init : coll_allgather_v)(
            in, out, p->counts, NULL, COLL_F32, comm, request);
    case 1:
        return (keeps ? coll_reduce_scatter_v_init : coll_reduce_scatter_v)(
            in, out, p->counts, COLL_F32, COLL_SUM, comm, request);
    case 2:
        return (keeps ? coll_gather_v_init : coll_gather_v)(
            in, mine[0], out, p->counts, NULL, COLL_F32, n - 1, comm, request);
    case 3:
        return (keeps ? coll_scatter_v_init : coll_scatter_v)(
            in, p->counts, NULL, out, mine[0], COLL_F32, n - 1, comm, request);
    default:
        return (keeps ? coll_alltoall_v_init : coll_alltoall_v)(
            in, p->counts, NULL, out, mine, NULL, COLL_F32, comm, request);
    }
}

static int v_is_right(int kind, const struct parts *p, int rank, int n,
                      float more)
{
    const float *out = p->out[kind];
    const size_t mine = p->counts[rank];
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < (kind == 0 || kind == 2 ? p->counts[r] : mine);
             i++) {
            const size_t own = p->before[rank] + i;
            float want = kind == 0 || kind == 2 ? value(r, i)
                         : kind == 3            ? value(n - 1, own)
                         : kind == 4            ? value(r, own)
                                                : 0;
            const size_t at = kind == 4                ? (size_t)r * mine + i
                              : kind == 1 || kind == 3 ? i
                                                       : p->before[r] + i;
            for (int k = 0; k < n && kind == 1; k++)
                want += value(k, own);
            if ((kind != 2 || rank == n - 1)
                && out[at] != want + more * (float)(kind == 1 ? n : 1))
                return 0;
        }
    return 1;
}

/* A long message and a short one go round. */
static coll_status point(int i, bool keeps, struct parts *p, int rank, int n,
                         coll_comm *comm, coll_request **request)
{
    const int right = (rank + 1) % n, left = (rank + n - 1) % n;
    switch (i) {
    case 0:
        return (keeps ? coll_recv_init : coll_recv)(
            p->from, LONG, COLL_F32, left, 1, comm, &p->heard[0], request);
    case 1:
        return (keeps ? coll_recv_init : coll_recv)(&p->other, 1, COLL_F32,
                                                    COLL_ANY_SOURCE, 2, comm,
                                                    &p->heard[1], request);
    case 2:
        return (keeps ? coll_send_init : coll_send)(p->to, LONG, COLL_F32,
                                                    right, 1, comm, request);
    default:
        return (keeps ? coll_send_init : coll_send)(&p->one, 1, COLL_F32, right,
                                                    2, comm, request);
    }
}

static void fill(struct parts *p, int rank, int n, float more)
{
    for (int k = 0; k < V_KINDS; k++)
        for (size_t i = 0; i < p->before[n]; i++) {
            p->in[k][i] = value(rank, i) + more;
            p->out[k][i] = -1;
        }
    for (size_t i = 0; i < LONG; i++)
        p->to[i] = value(rank, i) + more;
    p->one = (float)rank + more;
    p->heard[0] = p->heard[1] = (coll_message){-2, -2, 0};
}

static int points_are_right(const struct parts *p, int left, float more)
{
    for (size_t i = 0; i < LONG; i++)
        if (p->from[i] != value(left, i) + more)
            return 0;
    return p->other == (float)left + more && p->heard[0].source == left
           && p->heard[0].count == LONG && p->heard[1].source == left
           && p->heard[1].tag == 2;
}

/* The receives, the sends, then the v-calls. */
static coll_status begin(int i, bool keeps, struct parts *p, int rank, int n,
                         coll_comm *comm, coll_request **request)
{
    return i < POINTS ? point(i, keeps, p, rank, n, comm, request)
                      : v_call(i - POINTS, keeps, p, rank, n, comm, request);
}

/* All of them under way at once. Nobody sends before all have started their
 * receives, so that no message has to be kept. */
static int start_all(struct parts *p, bool keeps, int rank, int n,
                     coll_comm *comm, coll_request *all[CALLS], int *taken)
{
    *taken = 0;
    for (int i = 0; i < CALLS; i++) {
        if (i == 2)
            EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
        const int before = allocations;
        EXPECT((keeps ? coll_start(all[i])
                      : begin(i, false, p, rank, n, comm, &all[i]))
                   == COLL_OK,
               "start %d", i);
        *taken += allocations - before;
    }
    return 0;
}

/* Odd ranks call anew each time. */
static int again_and_again(coll_comm *comm, int rank, int n)
{
    static struct parts p;
    coll_request *all[CALLS] = {NULL};
    const bool keeps = rank % 2 == 0;
    /* Which keeps more packets the more are on their way. */
    const bool over_network = !strcmp(getenv("COLL_TRANSPORT"), "ucx");
    for (int r = 0; r < n; r++) {
        p.counts[r] = EACH + (size_t)r;
        p.before[r + 1] = p.before[r] + p.counts[r];
    }
    for (int i = 0; i < CALLS && keeps; i++)
        EXPECT(begin(i, true, &p, rank, n, comm, &all[i]) == COLL_OK, "init %d",
               i);
    EXPECT(!keeps || coll_wait_all(CALLS, all) == COLL_OK, "not started");
    for (int round = 0; round < ROUNDS; round++) {
        int taken;
        fill(&p, rank, n, (float)round);
        if (start_all(&p, keeps, rank, n, comm, all, &taken))
            return 1;
        EXPECT(!keeps || round < WARM || !taken || over_network,
               "starts took memory %d times", taken);
        EXPECT(coll_wait_all(CALLS, all) == COLL_OK, "wait");
        for (int k = 0; k < V_KINDS; k++)
            EXPECT(v_is_right(k, &p, rank, n, (float)round),
                   "v-call %d, round %d", k, round);
        EXPECT(points_are_right(&p, (rank + n - 1) % n, (float)round),
               "messages of round %d", round);
    }
    for (int i = 0; i < CALLS; i++)
        EXPECT(coll_request_free(&all[i]) == COLL_OK && !all[i], "free");
    return 0;
}

Test(persistent_parts, v_calls_sends_and_receives_start_again_and_again)
{
    cr_assert_eq(run_ranks(3, over_shm, again_and_again), 0);
    cr_assert_eq(run_ranks(2, over_ucx, again_and_again), 0);
}

static int wrong(coll_comm *comm, int rank, int n)
{
    const size_t counts[2] = {1, 1};
    float x[2] = {0};
    coll_request *r = NULL;
    (void)rank, (void)n;
    EXPECT(coll_send_init(x, 1, COLL_F32, 0, 0, comm, NULL) == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "coll_send_init: request is"),
           "send, request");
    EXPECT(coll_recv_init(x, 1, COLL_F32, 7, 0, comm, NULL, &r)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "peer 7 is no rank of 1"),
           "receive, peer");
    EXPECT(coll_send_init(x, 1, COLL_F32, 0, 0, NULL, &r) == COLL_ERR_INVALID,
           "send, comm");
    EXPECT(coll_allgather_v_init(x, x, counts, NULL, COLL_F32, comm, NULL)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "allgather_v_init: request"),
           "v-call, request");
    EXPECT(coll_allgather_v_init(x, x, NULL, NULL, COLL_F32, comm, &r)
               == COLL_ERR_INVALID,
           "v-call, counts");
    EXPECT(coll_allgather_v_init(NULL, x, counts, NULL, COLL_F32, comm, &r)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "send is NULL"),
           "v-call, send");
    EXPECT(!r, "set by a call that failed");
    EXPECT(coll_recv_init(x, 1, COLL_F32, 0, 3, comm, NULL, &r) == COLL_OK,
           "init");
    EXPECT(coll_start(r) == COLL_OK && coll_start(r) == COLL_ERR_INVALID,
           "started twice");
    EXPECT(coll_request_free(&r) == COLL_ERR_INVALID && r, "free");
    EXPECT(coll_send(x, 1, COLL_F32, 0, 3, comm, NULL) == COLL_OK, "send");
    EXPECT(coll_wait(&r) == COLL_OK && r, "wait");
    return coll_request_free(&r);
}

Test(persistent_parts, wrong_arguments_are_refused)
{
    cr_assert_eq(run_ranks(1, NULL, wrong), 0);
}

static int fails(coll_comm *comm, int rank, int n)
{
    float x = 0;
    coll_request *r;
    (void)n;
    EXPECT(coll_recv_init(&x, 1, COLL_F32, 1 - rank, 0, comm, NULL, &r)
                   == COLL_OK
               && coll_start(r) == COLL_OK,
           "start");
    mark_rank();
    if (rank == 0) {
        await_marks(2); /* who hears of it before fails to start */
        coll_comm_abort(comm);
    }
    EXPECT(coll_wait(&r) == COLL_ERR_ABORTED && r, "wait");
    EXPECT(coll_start(r) == COLL_ERR_ABORTED, "started after a failure");
    EXPECT(coll_wait(&r) == COLL_OK, "it is not under way");
    coll_comm_destroy(comm);
    EXPECT(coll_request_free(&r) == COLL_OK && !r, "free");
    mark_rank();
    await_marks(4);
    _exit(0);
}

Test(persistent_parts, a_failure_leaves_them_to_be_freed)
{
    cr_assert_eq(run_ranks(2, over_shm, fails), 0);
}
