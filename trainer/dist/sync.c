/* SPDX-License-Identifier: MIT */
/* Synchronous data parallelism: after every step the gradients of all ranks
 * are summed. Each rank scales its own by one over the images of the whole
 * global batch before the sum, so the sum is the mean gradient, and k ranks
 * do what one rank with a k times larger batch does.
 *
 * They go packed, as one vector; by layers, each as soon as it is ready; in
 * buckets of layers, of which buckets.c chooses how many; or by priority, in
 * pieces, of which those of the first layers overtake what is needed later, and
 * the optimiser moves each layer's weights directly before the next forward
 * reads them. One long vector uses links best, but nobody computes meanwhile.
 * Factors, of layers that have no gradients, go as soon as these have them all;
 * one layer later where other ranks of the host move the same weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "dist/buckets.h"
#include "dist/pieces.h"
#include "dist/strategy.h"
#include "net/factor.h"

struct sync {
    void *registered[2];  /* gradients, and what ranks gather: weights or
                             factors */
    struct wire *wire;    /* fewer bytes travel; or NULL */
    struct slice *slices; /* of layers with parameters */
    int nslices;
    struct pieces pieces;    /* of this step, */
    struct pieces draft;     /* and room to think of others */
    coll_request **requests; /* of factors, then of each piece */
    size_t ready;            /* gradients from there on are, in this step */
    int nsent, narrived; /* of the order; of the pieces, first layer first */
    bool pending;        /* not all that was sent has arrived */
    bool gathered;       /* factors are sent, in this step */
    coll_status status;  /* the first failure of this step */
    double visible;      /* seconds spent here since a step's first slice */
    /* For choices. Work is the time that is not spent here. */
    bool adapts;
    size_t fixed;                         /* floats of a piece, or 0: chosen */
    double spent;                         /* here, in all */
    double backward_began, forward_began; /* of work */
    double backward;                      /* seconds of the last one */
    int ntimed;                           /* slices of this forward */
    long nsteps;                          /* begun */
    int vote;                             /* that is followed */
    struct buckets buckets;
};

static size_t count_of(const struct strategy *s)
{
    return s->net->grads.count;
}

static double expected(const struct strategy *s, size_t count)
{
    const struct sync *y = s->own;
    return y->wire ? wire_seconds(y->wire, count)
                   : strategy_predicted(s, "allreduce", count);
}

/* Closes it again where f32 is faster. */
static coll_status try_wire(struct strategy *s)
{
    struct sync *y = s->own;
    const char *name = wire_names[s->settings.wire.kind];
    struct wire_trial t = {0};
    if (s->settings.wire.always)
        return COLL_OK;
    const coll_status status = wire_try(y->wire, &t);
    if (status || t.coded < t.f32)
        return status;
    snprintf(s->note, sizeof(s->note),
             "--wire %s: gradients stay f32, as %s takes %.2f times as long; "
             "--wire-always takes codes all the same",
             name, name, t.coded / t.f32);
    wire_close(y->wire);
    y->wire = NULL;
    return COLL_OK;
}

/* Only over links where codes save time. */
static coll_status open_wire(struct strategy *s)
{
    struct sync *y = s->own;
    struct arena *grads = &s->net->grads;
    const struct wire_settings settings = s->settings.wire;
    if (settings.kind == WIRE_F32)
        return COLL_OK;
    if (s->part != PART_OUTSIDE) {
        snprintf(s->note, sizeof(s->note),
                 "--wire %s: all ranks are on one host, where gradients stay "
                 "f32, as no link is slow",
                 wire_names[settings.kind]);
        return COLL_OK;
    }
    coll_status status = wire_open(&y->wire, settings, s->comm, grads,
                                   &s->state, s->net->nlayers);
    if (status)
        return status;
    if (wire_is_whole(y->wire) && s->settings.exchange > EXCHANGE_PACKED) {
        snprintf(s->note, sizeof(s->note),
                 "--exchange layers and buckets: found --wire %s with several "
                 "ranks on each host, which adds up gradients there first; "
                 "valid is packed",
                 wire_names[settings.kind]);
        return COLL_ERR_INVALID;
    }
    status = try_wire(s);
    if (!status && y->wire && wire_loses(settings.kind)
        && arena_alloc(&s->state, grads->count))
        return COLL_ERR_MEMORY;
    return status;
}

static size_t floats_of(const struct strategy *s, int choice)
{
    const struct sync *y = s->own;
    const size_t n = (size_t)buckets_pieces(choice);
    return y->fixed ? y->fixed : n == 1 ? SIZE_MAX : (count_of(s) + n - 1) / n;
}

static bool gathers(const struct strategy *s)
{
    return s->net->factors.x && coll_comm_count(s->comm) > 1;
}

/* Takes over how pieces are cut, and sets what follows from it. */
static void cut(struct strategy *s, size_t floats, bool late)
{
    struct sync *y = s->own;
    pieces_cut(&y->pieces, y->slices, y->nslices, floats, late);
    s->defers = late;
    s->overlaps = y->pieces.n > 1 || gathers(s);
}

static void open_exchange(struct strategy *s)
{
    struct sync *y = s->own;
    const enum exchange how = s->settings.exchange;
    const size_t bytes = s->settings.bucket_bytes;
    const bool whole = y->wire && wire_is_whole(y->wire);
    y->fixed = (bytes + sizeof(float) - 1) / sizeof(float);
    /* On one host sums are the processors' own work: nothing hides them. */
    y->adapts = how == EXCHANGE_PRIORITY || (how == EXCHANGE_BUCKETS && !bytes)
                || (how == EXCHANGE_AUTO && s->part == PART_OUTSIDE && !whole
                    && !s->settings.shard);
    s->listens = y->adapts;
    cut(s,
        how == EXCHANGE_LAYERS ? 1
        : bytes                ? y->fixed
                               : SIZE_MAX,
        bytes && how == EXCHANGE_PRIORITY);
}

static int open_slices(struct strategy *s)
{
    struct sync *y = s->own;
    const struct net *net = s->net;
    const size_t most = 1 + PIECES_MOST + (size_t)net->nlayers;
    y->slices = calloc((size_t)net->nlayers, sizeof(*y->slices));
    y->requests = calloc(most, sizeof(coll_request *));
    if (!y->slices || !y->requests || pieces_open(&y->pieces, net->nlayers)
        || pieces_open(&y->draft, net->nlayers))
        return -1;
    for (int i = 0; i < net->nlayers; i++)
        if (net->layers[i].nparams && !net->layers[i].factors.x)
            y->slices[y->nslices++] = (struct slice){
                .first = (size_t)(net->layers[i].grads - net->grads.x),
                .count = net->layers[i].nparams};
    y->ready = net->grads.count;
    return 0;
}

/* It moves into memory that the ranks of a host share, where collectives need
 * no copy, if that pays. */
static coll_status share(struct strategy *s, const struct arena *a,
                         void **registered)
{
    return coll_comm_register(s->comm, a->x, arena_bytes(a->count), registered);
}

static coll_status open_sync(struct strategy *s)
{
    struct arena *grads = &s->net->grads;
    struct sync *y = s->own = calloc(1, sizeof(*y));
    if (!y)
        return COLL_ERR_MEMORY;
    coll_status status = factors_open(s);
    if (!status && open_slices(s))
        status = COLL_ERR_MEMORY;
    if (!status)
        status = open_wire(s);
    if (!status && s->settings.shard)
        status = shard_open(&s->shard, s->comm, grads->count);
    if (status)
        return status;
    open_exchange(s);
    if (coll_comm_count(s->comm) == 1)
        return COLL_OK;
    struct arena *gathered = s->shard.counts     ? &s->net->params
                             : s->net->factors.x ? &s->net->factors
                                                 : NULL;
    status = share(s, grads, &y->registered[0]);
    return status || !gathered ? status : share(s, gathered, &y->registered[1]);
}

static void note(struct sync *y, coll_status status)
{
    if (y->status == COLL_OK && status < 0)
        y->status = status;
}

/* Adds what has been spent here since. */
static void spend(struct sync *y, double start)
{
    const double seconds = clock_now() - start;
    y->visible += seconds;
    y->spent += seconds;
}

/* --- sending ----------------------------------------------------------------
 */

static coll_status send(struct strategy *s, int i)
{
    struct sync *y = s->own;
    const struct piece *p = &y->pieces.piece[i];
    float *x = s->net->grads.x + p->first;
    const bool all =
        y->pieces.n == 1 && !s->late && !s->meanwhile; /* waited for at once */
    if (s->shard.counts)
        return shard_sum(&s->shard, x);
    return y->wire ? wire_send(y->wire, p->first, p->count)
                   : coll_allreduce(x, x, p->count, COLL_F32, COLL_SUM, s->comm,
                                    all ? NULL : &y->requests[1 + i]);
}

static coll_status test(struct sync *y)
{
    return y->wire ? wire_test(y->wire)
                   : coll_test_all(1 + y->pieces.n, y->requests);
}

static coll_status wait_all(struct sync *y)
{
    y->pending = false;
    return y->wire ? wire_finish(y->wire)
                   : coll_wait_all(1 + y->pieces.n, y->requests);
}

/* What is next in the order, as far as it is ready. All ranks do this with the
 * same slices, so they also send sums of other things at the same place. */
static void send_ready(struct strategy *s)
{
    struct sync *y = s->own;
    const struct pieces *p = &y->pieces;
    while (y->status == COLL_OK && y->nsent < p->n
           && p->piece[p->order[y->nsent]].first >= y->ready)
        note(y, send(s, p->order[y->nsent++]));
}

/* --- choosing ---------------------------------------------------------------
 */

/* As choice says, by the times of layers and of the library's prices. */
static void plan(const struct strategy *s, int choice, struct pieces *p)
{
    const struct sync *y = s->own;
    pieces_cut(p, y->slices, y->nslices, floats_of(s, choice), true);
    for (int i = 0; i < p->n; i++)
        p->piece[i].seconds = expected(s, p->piece[i].count);
    pieces_by_need(p);
}

static bool is_offered(const struct strategy *s, int choice)
{
    const struct sync *y = s->own;
    const bool late = choice >= BUCKETS_LATE;
    if (s->settings.exchange == EXCHANGE_PRIORITY)
        return y->fixed ? choice == BUCKETS_LATE : late;
    return !late
           || (s->settings.exchange == EXCHANGE_AUTO && !y->wire
               && !s->settings.together);
}

static void start(struct strategy *s)
{
    struct sync *y = s->own;
    const double latency = expected(s, 1), all = expected(s, count_of(s));
    double visible[BUCKETS_CHOICES];
    for (int i = 0; i < BUCKETS_CHOICES; i++) {
        visible[i] = INFINITY;
        if (!is_offered(s, i))
            continue;
        if (i >= BUCKETS_LATE) {
            plan(s, i, &y->draft);
            visible[i] = pieces_wait(&y->draft);
        } else {
            visible[i] =
                buckets_visible(buckets_pieces(i), latency,
                                all > latency ? all : latency, y->backward);
        }
    }
    buckets_start(&y->buckets, visible);
}

/* At the begin of a backward pass: of the exchange before, which is over. The
 * first step prepares what later ones find. A vote is a choice and, so that all
 * plan anew when it is tried again, how many there were. */
static void learn(struct strategy *s, double seconds)
{
    struct sync *y = s->own;
    const long number = y->nsteps++;
    if (!y->adapts || coll_comm_user_rank(s->comm) || number < 2)
        return;
    bool anew = number == 2;
    if (anew)
        start(s);
    else
        anew = buckets_step(&y->buckets, seconds, y->visible);
    if (anew)
        s->vote = (s->vote / BUCKETS_CHOICES + 1) * BUCKETS_CHOICES
                  + y->buckets.choice;
}

/* All ranks cut alike; what has another order comes from rank 0, as others have
 * other times. */
static coll_status follow(struct strategy *s, int vote)
{
    struct sync *y = s->own;
    if (vote == y->vote)
        return COLL_OK;
    y->vote = vote;
    const int choice = vote % BUCKETS_CHOICES;
    const bool late = choice >= BUCKETS_LATE;
    const enum part before = breakdown_enter(s->time, s->part);
    const double began = clock_now();
    coll_status status = y->pending ? wait_all(y) : COLL_OK;
    cut(s, floats_of(s, choice), late);
    if (late && !coll_comm_user_rank(s->comm))
        plan(s, choice, &y->pieces);
    if (late && !status)
        status =
            coll_broadcast(y->pieces.order, y->pieces.order,
                           (size_t)y->pieces.n, COLL_I32, 0, s->comm, NULL);
    spend(y, began);
    breakdown_enter(s->time, before);
    return status;
}

/* --- a step -----------------------------------------------------------------
 */

/* The first step takes longer than others. */
static double mean(const struct sync *y, double before, double now)
{
    return y->nsteps > 2 ? before + (now - before) / 4 : now;
}

static struct slice *slice_at(const struct sync *y, size_t first)
{
    int i = 0;
    while (i + 1 < y->nslices && y->slices[i].first < first)
        i++;
    return &y->slices[i];
}

static void begin_backward(struct strategy *s, double work)
{
    struct sync *y = s->own;
    learn(s, work - y->backward_began + y->visible);
    y->visible = 0;
    y->nsent = 0;
    y->backward_began = work;
}

static void send_factors(struct strategy *s)
{
    struct sync *y = s->own;
    if (y->gathered || !gathers(s) || y->status != COLL_OK)
        return;
    y->gathered = true;
    note(y, factors_start(s, &y->requests[0]));
}

/* All are there once the first layer that has any says so. It reads its weights
 * once more then: others that have the same move them only when what comes next
 * says that something is there. */
static bool factors_are_ready(const struct strategy *s, size_t param)
{
    const size_t first = s->net->factored_at;
    return s->meanwhile ? param < first : param == first;
}

/* Slices come from the end of the arena, each directly before the last one.
 * What lies first is left to finish(). */
static coll_status grads_ready(struct strategy *s, size_t param, size_t count)
{
    struct sync *y = s->own;
    const double start = clock_now(), work = start - y->spent;
    const size_t first = net_gradient_at(s->net, param);
    if (factors_are_ready(s, param))
        send_factors(s);
    if (net_is_factored(s->net, param)) {
        spend(y, start);
        return y->status;
    }
    if (first + count == count_of(s))
        begin_backward(s, work);
    y->ready = first;
    if (y->adapts) {
        struct slice *slice = slice_at(y, first);
        y->backward = work - y->backward_began;
        slice->ready = mean(y, slice->ready, y->backward);
    }
    if (first > 0) {
        send_ready(s);
        /* What is on its way moves on while it is asked for. */
        if (y->status == COLL_OK)
            note(y, test(y));
    }
    spend(y, start);
    return y->status;
}

/* Who comes first has time. */
static void use_time(struct strategy *s)
{
    struct sync *y = s->own;
    coll_status status = y->status;
    if (!status)
        status = coll_wait(&y->requests[0]);
    while (!status || status == COLL_IN_PROGRESS) {
        status = test(y);
        if (status != COLL_IN_PROGRESS || !s->meanwhile(s->context))
            break;
    }
    note(y, status);
}

/* Of one that is late only the sums are waited for, which rank 0's vote and the
 * end of a failed run are in. */
static coll_status finish(struct strategy *s)
{
    struct sync *y = s->own;
    const double start = clock_now();
    send_factors(s); /* of a net that has nothing else */
    send_ready(s);
    y->gathered = false;
    y->pending = y->pieces.n > 1 || s->late;
    y->narrived = y->ntimed = 0;
    if (s->meanwhile && !s->late)
        use_time(s);
    if (!s->late)
        note(y, wait_all(y));
    else if (y->status == COLL_OK)
        note(y, coll_wait(&s->sums));
    spend(y, start);
    const coll_status status = y->status;
    y->status = COLL_OK;
    return status;
}

/* When a forward comes to its layers; again and again if there are several. */
static void time_forward(struct sync *y, size_t first, double work)
{
    if (y->ntimed == y->nslices || y->slices[y->ntimed].first != first)
        return;
    struct slice *slice = &y->slices[y->ntimed];
    if (!y->ntimed++)
        y->forward_began = work;
    slice->needed =
        mean(y, slice->needed, y->backward + work - y->forward_began);
}

static coll_status arrive(struct strategy *s, size_t param, size_t count)
{
    struct sync *y = s->own;
    const struct pieces *p = &y->pieces;
    const double start = clock_now();
    const size_t first = net_gradient_at(s->net, param);
    const size_t end = net_gradient_at(s->net, param + count);
    if (first < end)
        time_forward(y, first, start - y->spent);
    if (!y->pending)
        return y->status;
    while (y->status == COLL_OK && y->narrived < p->n
           && p->piece[y->narrived].first < end)
        note(y, coll_wait(&y->requests[1 + y->narrived++]));
    if (y->status == COLL_OK && param + count > s->net->factored_at)
        note(y, coll_wait(&y->requests[0]));
    if (y->status == COLL_OK)
        note(y, test(y));
    y->pending = y->narrived < p->n || y->requests[0];
    spend(y, start);
    return y->status;
}

static void close_sync(struct strategy *s)
{
    struct sync *y = s->own;
    if (y && y->pending)
        wait_all(y);
    coll_wait(&s->sums); /* left only by what failed */
    for (int i = 0; y && i < 2; i++)
        if (y->registered[i])
            coll_comm_deregister(s->comm, y->registered[i]);
    shard_close(&s->shard);
    if (y) {
        wire_close(y->wire);
        pieces_close(&y->pieces);
        pieces_close(&y->draft);
        free(y->requests);
        free(y->slices);
    }
    free(y);
}

const struct strategy_ops strategy_sync = {
    .name = "sync",
    .uses = USES_EXCHANGE | USES_WIRE | USES_SHARD | USES_FACTORS,
    .open = open_sync,
    .grads_ready = grads_ready,
    .finish = finish,
    .arrive = arrive,
    .follow = follow,
    .close = close_sync,
};
