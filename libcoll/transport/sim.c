/* SPDX-License-Identifier: MIT */
#include "transport/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct queue { /* posted transfers that have no partner yet */
    struct transfer *first, **last;
};

struct rank {
    struct transport base; /* first: a transport pointer is a rank pointer */
    struct sim *sim;
    int me;
    double clock, tx_free, rx_free;
    struct queue sends, recvs;
    struct sim_traffic traffic;
};

struct event { /* a message arrives */
    double at;
    int from, to;
    struct transfer *tx, *rx;
};

struct sim {
    struct sim_net net;
    int nranks;
    struct rank *ranks;
    struct event *heap;
    size_t nheap, heap_capacity;
    unsigned random;
};

extern const struct transport_ops transport_sim;

static void enqueue(struct queue *q, struct transfer *t)
{
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
}

/* The oldest transfer with that peer, taken off the queue; or NULL. */
static struct transfer *dequeue(struct queue *q, int peer)
{
    for (struct transfer **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->peer == peer) {
            struct transfer *t = *at;
            *at = t->next;
            if (!*at)
                q->last = at;
            return t;
        }
    return NULL;
}

static bool heap_push(struct sim *s, struct event e)
{
    if (s->nheap == s->heap_capacity) {
        const size_t capacity = s->heap_capacity ? 2 * s->heap_capacity : 256;
        struct event *heap = realloc(s->heap, capacity * sizeof(*heap));
        if (!heap)
            return false;
        s->heap = heap;
        s->heap_capacity = capacity;
    }
    size_t i = s->nheap++;
    for (; i > 0 && e.at < s->heap[(i - 1) / 2].at; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
    return true;
}

static struct event heap_pop(struct sim *s)
{
    const struct event top = s->heap[0], last = s->heap[--s->nheap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->nheap; i = child) {
        if (child + 1 < s->nheap && s->heap[child + 1].at < s->heap[child].at)
            child++;
        if (last.at <= s->heap[child].at)
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

static double stretch(struct sim *s)
{
    if (!s->net.jitter_seed)
        return 1.0;
    s->random = s->random * 1664525u + 1013904223u;
    return 1.0 + (s->random >> 16) % 64;
}

static void match(struct sim *s, int from, struct transfer *tx, int to,
                  struct transfer *rx)
{
    struct rank *a = &s->ranks[from], *b = &s->ranks[to];
    const struct sim_link link =
        s->net.link_of ? s->net.link_of(s->net.context, from, to) : s->net.link;
    const double begin =
        fmax(fmax(tx->posted, rx->posted), fmax(a->tx_free, b->rx_free));
    const double wire = link.beta * (double)tx->bytes;
    const struct event e = {
        .at = begin + (link.alpha + wire) * stretch(s),
        .from = from,
        .to = to,
        .tx = tx,
        .rx = rx,
    };
    a->tx_free = b->rx_free = begin + wire;
    a->traffic.messages++;
    a->traffic.bytes += tx->bytes;
    if (!heap_push(s, e))
        tx->status = rx->status =
            fail(COLL_ERR_MEMORY, "sim", "no memory for another message");
}

static void sim_send(struct transport *t, struct transfer *tx)
{
    struct rank *me = (struct rank *)t, *to = &me->sim->ranks[tx->peer];
    struct transfer *rx = dequeue(&to->recvs, me->me);
    tx->posted = me->clock;
    if (rx)
        match(me->sim, me->me, tx, tx->peer, rx);
    else
        enqueue(&me->sends, tx);
}

static void sim_recv(struct transport *t, struct transfer *rx)
{
    struct rank *me = (struct rank *)t, *from = &me->sim->ranks[rx->peer];
    struct transfer *tx = dequeue(&from->sends, me->me);
    rx->posted = me->clock;
    if (tx)
        match(me->sim, rx->peer, tx, me->me, rx);
    else
        enqueue(&me->recvs, rx);
}

/* The data are copied on arrival: as late as they may be read. */
static void deliver(const struct event *e)
{
    if (e->tx->tag != e->rx->tag || e->tx->bytes != e->rx->bytes) {
        e->rx->status = fail(
            COLL_ERR_MISMATCH, "sim",
            "rank %d sent %zu bytes with tag %08x, rank %d expected %zu "
            "with tag %08x",
            e->from, e->tx->bytes, e->tx->tag, e->to, e->rx->bytes, e->rx->tag);
    } else {
        if (e->rx->buf && e->tx->buf)
            memcpy(e->rx->buf, e->tx->buf, e->rx->bytes);
        e->rx->status = COLL_OK;
    }
    e->tx->status = COLL_OK;
}

static bool sim_progress(struct transport *t)
{
    struct sim *s = ((struct rank *)t)->sim;
    if (!s->nheap)
        return false;
    const struct event e = heap_pop(s);
    deliver(&e);
    return true;
}

static void abort_queue(struct queue *q)
{
    for (struct transfer *t = q->first; t; t = t->next)
        t->status = COLL_ERR_ABORTED;
    *q = (struct queue){NULL, &q->first};
}

/* Takes this rank's transfers out of the messages under way; the partners
 * wait on, as they would for a rank that died. */
static void sim_cancel(struct transport *t)
{
    struct rank *me = (struct rank *)t;
    struct sim *s = me->sim;
    size_t kept = 0;
    abort_queue(&me->sends);
    abort_queue(&me->recvs);
    for (size_t i = 0; i < s->nheap; i++) {
        const struct event e = s->heap[i];
        if (e.from == me->me) {
            e.tx->status = COLL_ERR_ABORTED;
            enqueue(&s->ranks[e.to].recvs, e.rx);
        } else if (e.to == me->me) {
            e.rx->status = COLL_ERR_ABORTED;
            enqueue(&s->ranks[e.from].sends, e.tx);
        } else {
            s->heap[kept++] = e;
        }
    }
    s->nheap = 0;
    for (size_t i = 0; i < kept; i++)
        heap_push(s, s->heap[i]); /* never grows: it held them before */
}

static void sim_work(struct transport *t, size_t bytes, bool reduces)
{
    struct rank *me = (struct rank *)t;
    if (!reduces)
        return;
    me->clock += me->sim->net.gamma * (double)bytes;
    me->traffic.reduced_bytes += bytes;
}

static coll_status sim_open(struct transport **t,
                            const struct transport_job *job)
{
    if (!job->sim)
        return fail(COLL_ERR_UNSUPPORTED, "sim",
                    "the simulator only serves tests and predictions");
    *t = sim_rank(job->sim, job->rank);
    return COLL_OK;
}

static void sim_address(struct transport *t, struct transport_address *address)
{
    (void)t;
    address->bytes = 1;
}

static coll_status sim_connect(struct transport *t,
                               const struct transport_address *all,
                               bool *reached)
{
    const struct sim *s = ((struct rank *)t)->sim;
    for (int r = 0; r < s->nranks; r++)
        reached[r] = all[r].bytes == 1;
    return COLL_OK;
}

static void sim_close(struct transport *t)
{
    sim_cancel(t);
}

const struct transport_ops transport_sim = {
    .name = "sim",
    .simulated = true,
    .open = sim_open,
    .address = sim_address,
    .connect = sim_connect,
    .send = sim_send,
    .recv = sim_recv,
    .progress = sim_progress,
    .cancel = sim_cancel,
    .work = sim_work,
    .close = sim_close,
};

struct sim *sim_create(int nranks, const struct sim_net *net)
{
    struct sim *s = calloc(1, sizeof(*s));
    struct rank *ranks = calloc((size_t)nranks, sizeof(*ranks));
    if (!s || !ranks) {
        free(s);
        free(ranks);
        return NULL;
    }
    s->net = *net;
    s->random = net->jitter_seed;
    s->nranks = nranks;
    s->ranks = ranks;
    for (int r = 0; r < nranks; r++) {
        struct rank *rank = &s->ranks[r];
        rank->base.ops = &transport_sim;
        rank->sim = s;
        rank->me = r;
        rank->sends.last = &rank->sends.first;
        rank->recvs.last = &rank->recvs.first;
    }
    return s;
}

void sim_free(struct sim *s)
{
    if (!s)
        return;
    free(s->ranks);
    free(s->heap);
    free(s);
}

struct transport *sim_rank(struct sim *s, int rank)
{
    return &s->ranks[rank].base;
}

struct sim_traffic sim_traffic(const struct sim *s, int rank)
{
    return s->ranks[rank].traffic;
}

coll_status sim_run(struct sim *s,
                    coll_status (*advance)(void *context, int rank),
                    void *context, double *seconds)
{
    int left = s->nranks;
    bool *over = calloc((size_t)s->nranks, sizeof(*over));
    coll_status status = over ? COLL_OK : COLL_ERR_MEMORY;
    for (int r = 0; r < s->nranks && status >= 0; r++) {
        status = advance(context, r);
        left -= over[r] = status == COLL_OK;
    }
    while (s->nheap && status >= 0) {
        const struct event e = heap_pop(s);
        const int who[2] = {e.from, e.to};
        deliver(&e);
        for (int i = 0; i < 2 && status >= 0; i++) {
            struct rank *r = &s->ranks[who[i]];
            if (over[who[i]])
                continue;
            r->clock = fmax(r->clock, e.at);
            status = advance(context, who[i]);
            left -= over[who[i]] = status == COLL_OK;
        }
    }
    *seconds = 0;
    for (int r = 0; r < s->nranks; r++)
        *seconds = fmax(*seconds, s->ranks[r].clock);
    free(over);
    return status < 0 ? status : left ? COLL_ERR_PEER : COLL_OK;
}
