/* SPDX-License-Identifier: MIT */
/* Sends, receives and groups among threads, served by the helper thread too
 * (COLL_PROGRESS=thread). Prints TAP; a program of its own for the thread
 * sanitizer. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checks.h"
#include "coll/coll.h"
#include "rank_threads.h"

enum { TAGS = 12, LONG = 40000, ROUNDS = 8 };

static size_t length(int tag)
{
    return tag % 4 == 3 ? LONG : (size_t)(tag * tag);
}

static int sent(int from, int tag, size_t i)
{
    return from * 1000 + tag * 10 + (int)i;
}

struct box {
    int out[TAGS][LONG], in[LONG];
    coll_request *send, *recv;
    coll_message message;
};

/* Posts all messages of a rank with a peer of one tag. */
static int post(coll_comm *comm, int rank, int peer, int tag, struct box *b)
{
    const size_t count = length(tag);
    for (size_t i = 0; i < count; i++)
        b->out[tag][i] = sent(rank, tag, i);
    return coll_send(b->out[tag], count, COLL_I32, peer, tag, comm, &b->send)
           || coll_recv(b->in, count, COLL_I32, peer, tag, comm, &b->message,
                        &b->recv);
}

static int is_right(const struct box *b, int peer, int tag)
{
    int wrong = b->message.source != peer || b->message.tag != tag
                || b->message.count != length(tag);
    for (size_t i = 0; i < length(tag); i++)
        wrong |= b->in[i] != sent(peer, tag, i);
    return !wrong;
}

/* To and from everybody at once, each rank in an order of its own; ended in
 * different ways. */
static int exchange(coll_comm *comm, int rank, int n)
{
    struct box *boxes = calloc((size_t)n, sizeof(*boxes));
    unsigned seed = (unsigned)rank;
    int wrong = 0;
    for (int k = 0; k < ROUNDS * TAGS && !wrong; k++) {
        coll_request *all[17] = {NULL};
        int sum = rank;
        const int tag = k % TAGS;
        wrong |= coll_allreduce(&sum, &sum, 1, COLL_I32, COLL_SUM, comm,
                                &all[2 * n]);
        for (int p = 0; p < n; p++) {
            const int peer = (rank + p) % n;
            wrong |= post(comm, rank, peer, tag, &boxes[peer]);
            all[2 * p] = boxes[peer].send;
            all[2 * p + 1] = boxes[peer].recv;
        }
        if (rand_r(&seed) % 4 == 0)
            usleep(rand_r(&seed) % 300);
        for (int i = 0; i < 2 * n && k % 3 == 0; i++)
            wrong |= coll_wait(&all[i]);
        for (int index = 0; index >= 0 && k % 3 == 1;)
            wrong |= coll_wait_any(2 * n, all, &index);
        wrong |= coll_wait_all(2 * n + 1, all);
        for (int p = 0; p < n; p++)
            wrong |= !is_right(&boxes[p], p, tag);
        wrong |= sum != n * (n - 1) / 2;
    }
    free(boxes);
    return wrong;
}

/* The same without requests, with sums that fuse. */
static int grouped(coll_comm *comm, int rank, int n)
{
    struct box *boxes = calloc((size_t)n, sizeof(*boxes));
    int wrong = 0;
    for (int tag = 0; tag < TAGS && !wrong; tag++) {
        int sums[3] = {rank, 1, tag};
        wrong |= coll_group_start();
        for (int p = 0; p < n; p++) {
            const int peer = (rank + p) % n;
            wrong |= post(comm, rank, peer, tag, &boxes[peer]);
            if (p < 3)
                wrong |= coll_allreduce(&sums[p], &sums[p], 1, COLL_I32,
                                        COLL_SUM, comm, NULL);
        }
        wrong |= coll_group_end();
        wrong |= sums[0] != n * (n - 1) / 2 || (n > 1 && sums[1] != n);
        for (int p = 0; p < n; p++) {
            wrong |= coll_wait(&boxes[p].send) || coll_wait(&boxes[p].recv);
            wrong |= !is_right(&boxes[p], p, tag);
        }
    }
    free(boxes);
    return wrong;
}

/* A long message arrives while no rank is in a call of the library. */
static int while_nobody_calls(coll_comm *comm, int rank, int n, unsigned us,
                              int *late)
{
    struct box *b = calloc(1, sizeof(*b));
    const int peer = (rank + 1) % n;
    int wrong = exchange(comm, rank, n) || post(comm, rank, peer, 3, b);
    usleep(us);
    *late = coll_test(&b->send) == COLL_IN_PROGRESS
            || coll_test(&b->recv) == COLL_IN_PROGRESS;
    wrong |= coll_wait(&b->send) || coll_wait(&b->recv);
    wrong |= !is_right(b, peer, 3);
    free(b);
    return wrong;
}

static int nobody_calls(coll_comm *comm, int rank, int n)
{
    return in_time(comm, rank, n, while_nobody_calls);
}

int main(void)
{
    int failed = 0;
    setenv("COLL_PROGRESS", "thread", 1); /* read once */
    printf("1..5\n");
    failed += report(run(2, exchange) && run(3, exchange),
                     "everybody exchanges with everybody");
    failed += report(run(2, grouped) && run(3, grouped), "groups");
    failed += report(run(2, nobody_calls), "a message arrives without a call");
    nhosts = 2;
    failed += report(run(2, exchange), "between hosts too");
    failed += report(run(2, nobody_calls), "and without a call");
    return failed > 0;
}
