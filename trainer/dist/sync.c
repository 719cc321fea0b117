/* SPDX-License-Identifier: MIT */
/* Synchronous data parallelism: after every step the gradients of all ranks
 * are summed. Each rank scales its own by one over the images of the whole
 * global batch before the sum, so the sum is the mean gradient, and k ranks
 * do what one rank with a k times larger batch does.
 *
 * They go packed, as one vector; by layers, each as soon as it is ready; or in
 * buckets of layers, of which buckets.c chooses how many. One long vector uses
 * links best, but nobody computes meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "dist/buckets.h"
#include "dist/strategy.h"

struct sync {
    void *registration;
    size_t bucket;     /* floats that start an exchange; SIZE_MAX: packed */
    size_t first, end; /* of what is ready and not on its way */
    coll_request **requests;
    int nrequests;
    coll_status status;    /* the first failure of this step */
    double began, visible; /* first slice of this step; spent here since */
    bool adapts,
        informed; /* bucket is as buckets.choice says; which has begun */
    struct buckets buckets;
};

static size_t count_of(const struct strategy *s)
{
    return s->net->grads.count;
}

static double expected(const struct strategy *s, size_t count)
{
    coll_choice c;
    return !coll_explain(s->comm, "allreduce", count, COLL_F32, COLL_SUM, &c)
                   && c.predicted_seconds > 0
               ? c.predicted_seconds
               : 0;
}

/* On one host the sums are the processors' own work, which nothing hides. */
static bool crosses_hosts(const struct strategy *s)
{
    coll_choice c;
    return !coll_explain(s->comm, "allreduce", count_of(s), COLL_F32, COLL_SUM,
                         &c)
           && strncmp(c.algorithm, "node_", 5) != 0;
}

/* The gradients move into memory that the ranks of a host share, where they
 * are summed without a copy. */
static coll_status open_sync(struct strategy *s)
{
    struct arena *grads = &s->net->grads;
    struct sync *y = s->own = calloc(1, sizeof(*y));
    if (!y
        || !(y->requests =
                 calloc((size_t)s->net->nlayers, sizeof(*y->requests))))
        return COLL_ERR_MEMORY;
    y->bucket = s->exchange == EXCHANGE_LAYERS ? 1 : SIZE_MAX;
    if (s->exchange == EXCHANGE_BUCKETS && s->bucket_bytes)
        y->bucket = (s->bucket_bytes + sizeof(float) - 1) / sizeof(float);
    else
        y->adapts = s->exchange == EXCHANGE_BUCKETS
                    || (s->exchange == EXCHANGE_AUTO && crosses_hosts(s));
    s->overlaps = y->bucket != SIZE_MAX;
    return coll_comm_count(s->comm) == 1
               ? COLL_OK
               : coll_comm_register(s->comm, grads->x,
                                    arena_bytes(grads->count),
                                    &y->registration);
}

static void note(struct sync *y, coll_status status)
{
    if (y->status == COLL_OK && status < 0)
        y->status = status;
}

static void send_ready(struct strategy *s)
{
    struct sync *y = s->own;
    float *x = s->net->grads.x + y->first;
    const bool all = y->bucket == SIZE_MAX; /* then it is waited for at once */
    if (y->status == COLL_OK && y->end > y->first)
        note(y, coll_allreduce(x, x, y->end - y->first, COLL_F32, COLL_SUM,
                               s->comm,
                               all ? NULL : &y->requests[y->nrequests++]));
    y->end = y->first;
}

/* Slices come from the end of the arena, each directly before the last one. */
static coll_status grads_ready(struct strategy *s, size_t first, size_t count)
{
    struct sync *y = s->own;
    const double start = clock_now();
    if (y->end == 0) { /* the first of this step */
        y->began = start;
        y->end = first + count;
    }
    y->first = first;
    if (y->end - y->first >= y->bucket)
        send_ready(s);
    /* What is on its way moves on while it is asked for. */
    if (y->nrequests && y->status == COLL_OK)
        note(y, coll_test_all(y->nrequests, y->requests));
    const double spent = clock_now() - start;
    y->visible += spent;
    s->seconds += spent;
    return y->status;
}

static void learn(struct strategy *s, double backward)
{
    struct sync *y = s->own;
    if (!y->adapts || coll_comm_user_rank(s->comm))
        return;
    if (!y->informed) {
        y->informed = true;
        const double latency = expected(s, 1), all = expected(s, count_of(s));
        buckets_start(&y->buckets, latency, all > latency ? all : latency,
                      backward);
    } else {
        buckets_step(&y->buckets, y->visible);
    }
    s->vote = y->buckets.choice;
}

/* All ranks cut alike. */
static void follow(struct strategy *s, int vote)
{
    struct sync *y = s->own;
    const size_t pieces = (size_t)1 << vote;
    if (y->adapts)
        y->bucket = vote ? (count_of(s) + pieces - 1) / pieces : SIZE_MAX;
    s->overlaps = y->bucket != SIZE_MAX;
}

static coll_status finish(struct strategy *s)
{
    struct sync *y = s->own;
    const double start = clock_now(), backward = start - y->began - y->visible;
    send_ready(s);
    note(y, coll_wait_all(y->nrequests, y->requests));
    y->visible += clock_now() - start;
    learn(s, backward);
    const coll_status status = y->status;
    y->status = COLL_OK;
    y->nrequests = 0;
    y->visible = 0;
    y->first = y->end = 0;
    return status;
}

static void close_sync(struct strategy *s)
{
    struct sync *y = s->own;
    if (y && y->registration)
        coll_comm_deregister(s->comm, y->registration);
    if (y)
        free(y->requests);
    free(y);
}

const struct strategy_ops strategy_sync = {
    .name = "sync",
    .open = open_sync,
    .grads_ready = grads_ready,
    .finish = finish,
    .follow = follow,
    .close = close_sync,
};
