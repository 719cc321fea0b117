/* SPDX-License-Identifier: MIT */
/* Many ranks that send to whom they like and receive from anybody, and groups
 * of a thousand calls: all arrives, and soon. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "draw.h"
#include "ranks.h"
#include "thorough.h"

enum { MOST_MESSAGES = 997, GROUP_CALLS = 1000, LONG = 30000 /* of 8 bytes */ };

static const char *const shm[] = {"COLL_TRANSPORT=shm", "COLL_OP_SECONDS=20",
                                  "COLL_CALIBRATE=off", NULL};
static const char *const small_rings[] = {
    "COLL_TRANSPORT=shm",   "COLL_OP_SECONDS=20", "COLL_CALIBRATE=off",
    "COLL_SINGLE_COPY=off", "COLL_SHM_RING=16K",  NULL};
static const char *const ucx[] = {"COLL_TRANSPORT=ucx", "COLL_OP_SECONDS=20",
                                  "COLL_CALIBRATE=off", NULL};
static const char *const helped[] = {"COLL_TRANSPORT=shm", "COLL_OP_SECONDS=20",
                                     "COLL_CALIBRATE=off",
                                     "COLL_PROGRESS=thread", NULL};

/* How a receive says what it wants. */
enum wish { EXACTLY, ANY_SOURCE, ANYTHING, WISHES };

/* All ranks know of all messages; a message's number is its tag. */
struct traffic {
    uint64_t seed;
    int n, nmessages; /* a prime */
    bool grouped;
    struct message {
        int from, to;
        size_t count;
    } message[MOST_MESSAGES];
    /* This rank's, by the message's number; of ANYTHING the i-th receive. */
    uint64_t *out[MOST_MESSAGES], *in[MOST_MESSAGES];
    coll_message heard[MOST_MESSAGES];
    coll_request *sends[MOST_MESSAGES], *receives[MOST_MESSAGES];
};

/* A group may wait for its calls itself. */
static coll_request **request_of(const struct traffic *t, int k,
                                 coll_request **all)
{
    return t->grouped && k % 2 ? NULL : &all[k];
}

static uint64_t word(const struct traffic *t, int k, size_t i)
{
    return draw_mix(t->seed * 1000 + (uint64_t)k) + i;
}

static void draw_messages(struct traffic *t)
{
    static const size_t counts[] = {0, 1, 5, 12, 300, 1020, 1021, 1022};
    for (int k = 0; k < t->nmessages; k++) {
        const uint64_t x = draw_mix(draw_mix(t->seed + 1) + (uint64_t)k);
        t->message[k] = (struct message){
            .from = (int)(x % (uint64_t)t->n),
            .to = (int)(x / 1024 % (uint64_t)t->n),
            .count = k % 50 == 7 ? LONG : counts[x / (1 << 20) % 8],
        };
    }
}

static int post_send(struct traffic *t, int k, int rank, coll_comm *comm)
{
    const struct message *m = &t->message[k];
    if (m->from != rank)
        return 0;
    t->out[k] = malloc(m->count * 8 + 1);
    for (size_t i = 0; i < m->count; i++)
        t->out[k][i] = word(t, k, i);
    EXPECT(coll_send(t->out[k], m->count, COLL_U64, m->to, k, comm,
                     request_of(t, k, t->sends))
               == COLL_OK,
           "send %d", k);
    return 0;
}

static int post_receive(struct traffic *t, int k, int rank, enum wish wish,
                        coll_comm *comm)
{
    const struct message *m = &t->message[k];
    if (m->to != rank)
        return 0;
    const size_t room = wish == EXACTLY ? m->count : LONG;
    t->in[k] = malloc(room * 8 + 1);
    EXPECT(coll_recv(t->in[k], room, COLL_U64,
                     wish == EXACTLY ? m->from : COLL_ANY_SOURCE,
                     wish == ANYTHING ? COLL_ANY_TAG : k, comm, &t->heard[k],
                     request_of(t, k, t->receives))
               == COLL_OK,
           "receive %d", k);
    return 0;
}

/* What came with receive k says itself what it is. */
static int check_receive(struct traffic *t, int k, int rank)
{
    const coll_message *h = &t->heard[k];
    EXPECT(h->tag >= 0 && h->tag < t->nmessages, "tag %d", h->tag);
    struct message *m = &t->message[h->tag];
    EXPECT(h->source == m->from && m->to == rank && h->count == m->count,
           "message %d: %zu from %d instead of %zu from %d", h->tag, h->count,
           h->source, m->count, m->from);
    for (size_t i = 0; i < m->count; i++)
        EXPECT(t->in[k][i] == word(t, h->tag, i), "message %d, word %zu",
               h->tag, i);
    m->to = -1; /* it does not come twice */
    return 0;
}

static int finish(struct traffic *t, int rank)
{
    for (int k = 0; k < t->nmessages; k++) {
        EXPECT(coll_wait(&t->sends[k]) == COLL_OK, "send %d", k);
        EXPECT(coll_wait(&t->receives[k]) == COLL_OK, "receive %d", k);
        if (t->in[k] && check_receive(t, k, rank))
            return 1;
        free(t->out[k]);
        free(t->in[k]);
    }
    return 0;
}

/* Posts what this rank has of all messages, in an order of its own, and makes
 * the same sums as all others meanwhile. */
static int post_all(struct traffic *t, int rank, enum wish wish, int nsums,
                    int *sums, coll_comm *comm)
{
    const int step = 1 + 2 * (rank % 7);
    for (int i = 0, summed = 0; i < t->nmessages; i++) {
        const int k = (i * step + rank * 17) % t->nmessages;
        if (post_receive(t, k, rank, wish, comm) || post_send(t, k, rank, comm))
            return 1;
        for (; summed < nsums * (i + 1) / t->nmessages; summed++)
            EXPECT(coll_allreduce(&sums[summed], &sums[summed], 1, COLL_I32,
                                  COLL_SUM, comm, NULL)
                       == COLL_OK,
                   "sum %d", summed);
    }
    return 0;
}

static int one_round(coll_comm *comm, int rank, int n, uint64_t seed,
                     int nmessages, bool grouped, int nsums)
{
    struct traffic *t = calloc(1, sizeof(*t));
    int sums[GROUP_CALLS];
    *t = (struct traffic){
        .seed = seed, .n = n, .nmessages = nmessages, .grouped = grouped};
    draw_messages(t);
    for (int i = 0; i < nsums; i++)
        sums[i] = rank + i;
    if (grouped)
        coll_group_start();
    if (post_all(t, rank, (enum wish)(seed % WISHES), nsums, sums, comm))
        return 1;
    EXPECT(!grouped || coll_group_end() == COLL_OK, "group");
    if (finish(t, rank))
        return 1;
    for (int i = 0; i < nsums; i++)
        EXPECT(sums[i] == n * (n - 1) / 2 + n * i, "sum %d: %d", i, sums[i]);
    free(t);
    /* Or a receive of anything would take what belongs to the next round. */
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    return 0;
}

static int random_partners(coll_comm *comm, int rank, int n)
{
    for (uint64_t seed = 0; seed < cases(12, 1); seed++)
        if (one_round(comm, rank, n, seed, 397, false, 3))
            return 1;
    return 0;
}

Test(p2p_many, random_partners_hear_each_other, .timeout = 60)
{
    cr_expect_eq(run_ranks(16, shm, random_partners), 0, "shm");
    cr_expect_eq(run_ranks(16, ucx, random_partners), 0, "ucx");
    if (thorough()) {
        cr_expect_eq(run_ranks(16, small_rings, random_partners), 0, "rings");
        cr_expect_eq(run_ranks(24, shm, random_partners), 0, "24");
        cr_expect_eq(run_ranks(9, helped, random_partners), 0, "helped");
    }
}

static int groups(coll_comm *comm, int rank, int n)
{
    const int nmessages = n > 4 ? 997 : 499;
    for (uint64_t seed = 0; seed < cases(12, 1); seed++)
        if (one_round(comm, rank, n, seed, nmessages, true,
                      GROUP_CALLS - 2 * nmessages / n))
            return 1;
    return 0;
}

Test(p2p_many, groups_of_a_thousand_calls_end, .timeout = 60)
{
    cr_expect_eq(run_ranks(2, shm, groups), 0, "2 by shm");
    cr_expect_eq(run_ranks(4, ucx, groups), 0, "4 by ucx");
    cr_expect_eq(run_ranks(16, shm, groups), 0, "16 by shm");
    if (thorough()) {
        cr_expect_eq(run_ranks(16, ucx, groups), 0, "16 by ucx");
        cr_expect_eq(run_ranks(4, small_rings, groups), 0, "4 by small rings");
        cr_expect_eq(run_ranks(3, helped, groups), 0, "3, helped");
    }
}
