/* SPDX-License-Identifier: MIT */
/* Shared memory between the ranks of one host: processes, threads, or both.
 *
 * Each rank owns a segment with one ring per rank of its host, which that rank
 * fills. A send copies into the ring, a receive from it straight into the
 * caller's buffer; each ring carries the messages of one ordered pair, so they
 * match in posting order without a search. A second ring of each pair, which
 * takes no memory until it is used, carries what belongs to point to point:
 * packets, and long messages between them. After connect() no call takes
 * memory, locks, or enters the system.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "transport/ring.h"
#include "node/node.h"
#include "node/segment.h"
#include "transport/transport.h"

extern const struct transport_ops transport_shm;

struct queue { /* oldest first */
    struct transfer *first, **last;
};

struct way { /* of one channel */
    struct ring in, out;
    struct queue sends, recvs;
    uint64_t unwanted; /* bytes to come of a message that did not match */
};

enum { WAYS = 2 }; /* CHANNEL_COLLECTIVE; CHANNEL_DATA, and packets */

struct peer {
    struct way ways[WAYS];
    bool active; /* on the list of those with something to do */
    bool broken; /* it wrote what no rank of libcoll writes */
    int rank;
    struct segment_view view; /* of the rings that this rank fills */
};

struct shm {
    struct transport base; /* first: a transport pointer is a shm pointer */
    const struct transport_job *job;
    struct segment *segment;
    size_t packet_bytes;
    int nlocal, *place; /* place[r]: r's number among the ranks of its host */
    struct peer *peers; /* by place; the own one stays unused */
    int nactive;
    struct peer **active;
    bool cancelled;
};

static void enqueue(struct queue *q, struct transfer *t)
{
    t->next = NULL;
    t->moved = 0;
    *q->last = t;
    q->last = &t->next;
}

/* Takes the oldest off and ends it. */
static void finish(struct queue *q, coll_status status)
{
    struct transfer *t = q->first;
    q->first = t->next;
    if (!q->first)
        q->last = &q->first;
    t->status = status;
}

static void finish_all(struct peer *p, coll_status status)
{
    for (struct way *w = p->ways; w < p->ways + WAYS; w++) {
        while (w->sends.first)
            finish(&w->sends, status);
        while (w->recvs.first)
            finish(&w->recvs, status);
        w->unwanted = 0;
    }
}

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

static coll_status broken(struct peer *p, const char *what)
{
    const coll_status status = fail(
        COLL_ERR_PEER, "shm",
        "rank %d wrote an impossible %s into shared memory", p->rank, what);
    p->broken = true;
    finish_all(p, status);
    return status;
}

/* Hands over the cell that is next in line, its payload being there. The reader
 * is watching this line: it is written at one go. */
static void fill_header(struct ring *out, uint64_t total, uint32_t tag,
                        size_t here, uint16_t news)
{
    struct ring_cell *cell = ring_cell(out);
    cell->total = total;
    cell->tag = tag;
    cell->here = (uint16_t)here;
    cell->news = news;
    ring_filled(out);
}

/* Fills cells from the oldest sends while there is room, at most one ring of
 * them, so that other peers get their turn. */
static bool push(struct peer *p, struct way *w)
{
    uint64_t filled = 0;
    bool impossible = false;
    for (struct transfer *tx; (tx = w->sends.first) && filled < w->out.ncells
                              && ring_writable(&w->out, &impossible);
         filled++) {
        const size_t here =
            at_most(tx->bytes - tx->moved, ring_capacity(&w->out));
        memcpy(ring_payload(ring_cell(&w->out), here),
               (const char *)tx->buf + tx->moved, here);
        fill_header(&w->out, tx->bytes, tx->tag, here, tx->news);
        tx->moved += here;
        if (tx->moved == tx->bytes)
            finish(&w->sends, COLL_OK);
    }
    if (impossible)
        broken(p, "count of cells read");
    return filled > 0;
}

/* The first cell of a message against the receive that is next in line. */
static bool matches(struct peer *p, struct way *w, const struct ring_cell *cell)
{
    struct transfer *rx = w->recvs.first;
    const uint32_t tag = cell->tag;
    const uint64_t total = cell->total;
    rx->news = cell->news;
    if (tag == rx->tag && total == rx->bytes)
        return true;
    w->unwanted = total;
    fail(COLL_ERR_MISMATCH, "shm",
         "rank %d sent %llu bytes with tag %08x, this rank expected %zu bytes "
         "with tag %08x",
         p->rank, (unsigned long long)total, tag, rx->bytes, rx->tag);
    rx->tag = tag;
    rx->moved = total;
    finish(&w->recvs, COLL_ERR_MISMATCH);
    return false;
}

/* The part of the message that the cell must hold, copied if wanted. */
static void take(struct peer *p, struct way *w, struct ring_cell *cell)
{
    struct transfer *rx = w->unwanted ? NULL : w->recvs.first;
    const size_t here = at_most(rx ? rx->bytes - rx->moved : w->unwanted,
                                ring_capacity(&w->in));
    if (cell->here != here) {
        broken(p, "length of a message's part");
        return;
    }
    if (rx) {
        memcpy((char *)rx->buf + rx->moved, ring_payload(cell, here), here);
        rx->moved += here;
    } else {
        w->unwanted -= here;
    }
    ring_emptied(&w->in);
    if (rx && rx->moved == rx->bytes)
        finish(&w->recvs, COLL_OK);
}

/* Packets are what has no length; they are for hear(). */
static bool is_packet(const struct peer *p, const struct way *w,
                      const struct ring_cell *cell)
{
    return w == &p->ways[CHANNEL_DATA] && cell->total == 0;
}

/* Empties cells into the oldest receives, at most one ring of them. */
static bool pull(struct peer *p, struct way *w)
{
    uint64_t emptied = 0;
    while (emptied < w->in.ncells && (w->unwanted || w->recvs.first)
           && ring_readable(&w->in)) {
        struct ring_cell *cell = ring_cell(&w->in);
        if (is_packet(p, w, cell))
            break;
        if (!w->unwanted && w->recvs.first->moved == 0 && !matches(p, w, cell)
            && !w->unwanted)
            broken(p, "message of no bytes");
        else
            take(p, w, cell);
        if (p->broken)
            return true;
        emptied++;
    }
    return emptied > 0;
}

static bool way_busy(const struct way *w)
{
    return w->sends.first || w->recvs.first || w->unwanted;
}

static bool busy(const struct peer *p)
{
    return way_busy(&p->ways[CHANNEL_COLLECTIVE])
           || way_busy(&p->ways[CHANNEL_DATA]);
}

/* A transfer that cannot be carried out at all. */
static bool refused(struct shm *s, struct peer *p, struct transfer *t)
{
    if (s->cancelled)
        t->status = COLL_ERR_ABORTED;
    else if (p->broken)
        t->status =
            fail(COLL_ERR_PEER, "shm",
                 "rank %d is out of use: it wrote nonsense earlier", p->rank);
    return s->cancelled || p->broken;
}

static void activate(struct shm *s, struct peer *p)
{
    if (!p->active && busy(p)) {
        p->active = true;
        s->active[s->nactive++] = p;
    }
}

/* Both sides may sleep: for what was sent, and for room in a ring. */
static void wake(struct shm *s, const struct peer *p)
{
    if (s->job->node)
        node_ring(s->job->node, (int)(p - s->peers));
}

static bool move(struct shm *s, struct peer *p, struct way *w)
{
    const bool pushed = push(p, w), pulled = pull(p, w);
    if (pushed || pulled)
        wake(s, p);
    return pushed || pulled;
}

static void shm_send(struct transport *t, struct transfer *tx)
{
    struct shm *s = (struct shm *)t;
    struct peer *p = &s->peers[s->place[tx->peer]];
    assert(p->view.memory && p->rank == tx->peer);
    struct way *w = &p->ways[tx->channel];
    if (refused(s, p, tx))
        return;
    const bool first = !w->sends.first;
    enqueue(&w->sends, tx);
    if (first)
        move(s, p, w);
    activate(s, p);
}

static void shm_recv(struct transport *t, struct transfer *rx)
{
    struct shm *s = (struct shm *)t;
    struct peer *p = &s->peers[s->place[rx->peer]];
    assert(p->view.memory && p->rank == rx->peer);
    struct way *w = &p->ways[rx->channel];
    if (refused(s, p, rx))
        return;
    const bool first = !w->recvs.first;
    enqueue(&w->recvs, rx);
    if (first)
        move(s, p, w);
    activate(s, p);
}

static bool shm_progress(struct transport *t)
{
    struct shm *s = (struct shm *)t;
    bool moved = false;
    for (int i = 0; i < s->nactive;) {
        struct peer *p = s->active[i];
        for (struct way *w = p->ways; w < p->ways + WAYS; w++)
            if (way_busy(w))
                moved |= move(s, p, w);
        p->active = busy(p);
        if (p->active)
            i++;
        else
            s->active[i] = s->active[--s->nactive];
    }
    return moved;
}

static size_t shm_packet_bytes(const struct transport *t)
{
    return ((const struct shm *)t)->packet_bytes;
}

static coll_status shm_post(struct transport *t, int rank, const void *head,
                            size_t head_bytes, const void *body,
                            size_t body_bytes)
{
    struct shm *s = (struct shm *)t;
    struct peer *p = &s->peers[s->place[rank]];
    struct ring *out = &p->ways[CHANNEL_DATA].out;
    const size_t here = head_bytes + body_bytes;
    bool impossible = false;
    if (s->cancelled)
        return COLL_ERR_ABORTED;
    if (p->broken || !ring_writable(out, &impossible)) {
        if (p->broken || impossible)
            return broken(p, "count of cells read");
        return COLL_IN_PROGRESS;
    }
    char *payload = ring_payload(ring_cell(out), here);
    memcpy(payload, head, head_bytes);
    if (body_bytes)
        memcpy(payload + head_bytes, body, body_bytes);
    fill_header(out, 0, 0, here, 0);
    wake(s, p);
    ring_fetch_to_write(out, here);
    return COLL_OK;
}

/* All packets of one peer that are there, at most one ring of them. */
static coll_status hear_peer(struct shm *s, struct peer *p,
                             transport_heard *heard, void *context)
{
    struct way *w = &p->ways[CHANNEL_DATA];
    coll_status status = COLL_IN_PROGRESS;
    for (uint64_t i = 0; i < w->in.ncells && ring_readable(&w->in); i++) {
        struct ring_cell *cell = ring_cell(&w->in);
        const size_t here = cell->here;
        if (p->broken)
            break;
        if (!is_packet(p, w, cell) && (w->recvs.first || w->unwanted))
            break;
        if (!is_packet(p, w, cell) || here > ring_capacity(&w->in))
            return broken(p, "packet");
        status = heard(context, p->rank, ring_payload(cell, here), here);
        if (status < 0)
            return status;
        ring_emptied(&w->in);
    }
    if (status == COLL_OK)
        wake(s, p);
    return status;
}

static coll_status shm_hear(struct transport *t, transport_heard *heard,
                            void *context)
{
    struct shm *s = (struct shm *)t;
    coll_status status = COLL_IN_PROGRESS;
    for (struct peer *p = s->peers; p < s->peers + s->nlocal; p++) {
        if (!p->view.memory || s->cancelled)
            continue;
        const coll_status one = hear_peer(s, p, heard, context);
        if (one < 0)
            return one;
        status = one == COLL_OK ? COLL_OK : status;
    }
    return status;
}

static void shm_cancel(struct transport *t)
{
    struct shm *s = (struct shm *)t;
    s->cancelled = true;
    for (int i = 0; i < s->nactive; i++) {
        finish_all(s->active[i], COLL_ERR_ABORTED);
        s->active[i]->active = false;
    }
    s->nactive = 0;
}

/* What is in the receiver's memory has left this rank. */
static coll_status shm_flush(struct transport *t)
{
    struct shm *s = (struct shm *)t;
    shm_progress(t);
    for (int i = 0; i < s->nactive; i++)
        for (int w = 0; w < WAYS; w++)
            if (s->active[i]->ways[w].sends.first)
                return COLL_IN_PROGRESS;
    return COLL_OK;
}

static void shm_close(struct transport *t)
{
    struct shm *s = (struct shm *)t;
    if (s->active)
        shm_cancel(t);
    for (int i = 0; s->peers && i < s->nlocal; i++)
        segment_detach(&s->peers[i].view);
    segment_free(s->segment);
    free(s->peers);
    free(s->active);
    free(s->place);
    free(s);
}

/* Numbers the ranks of each host from 0; only this host's matter. */
static void count_local(struct shm *s, const struct transport_job *job)
{
    for (int r = 0; r < job->nranks; r++) {
        const bool here = job->host_of[r] == job->host_of[job->rank];
        s->place[r] = here ? s->nlocal++ : -1;
    }
}

/* As long as a cell's payload: the rings are all alike. */
static size_t packet_bytes(const struct shm *s)
{
    const size_t area = segment_name(s->segment).area_bytes;
    const struct ring any =
        ring_over(segment_area(s->segment, 0), area / WAYS, s->job->job);
    return ring_capacity(&any);
}

static coll_status shm_open(struct transport **t,
                            const struct transport_job *job)
{
    size_t ring_bytes;
    coll_status status =
        setting_bytes(SETTING_SHM_RING, RING_MIN_BYTES,
                      SEGMENT_MAX_AREA_BYTES / WAYS, &ring_bytes);
    if (status < 0)
        return status;
    struct shm *s = calloc(1, sizeof(*s));
    if (!s)
        return fail(COLL_ERR_MEMORY, "shm", "no memory for a transport");
    s->base.ops = &transport_shm;
    s->job = job;
    s->place = malloc((size_t)job->nranks * sizeof(*s->place));
    if (s->place)
        count_local(s, job);
    s->peers = calloc((size_t)s->nlocal, sizeof(*s->peers));
    s->active = calloc((size_t)s->nlocal, sizeof(struct peer *));
    if (!s->place || !s->peers || !s->active)
        status =
            fail(COLL_ERR_MEMORY, "shm", "no memory for %d peers", s->nlocal);
    else
        status = segment_create(&s->segment, job->job, job->rank,
                                (size_t)s->nlocal, WAYS * ring_bytes);
    if (status < 0) {
        shm_close(&s->base);
        return status;
    }
    s->packet_bytes = packet_bytes(s);
    *t = &s->base;
    return COLL_OK;
}

static void shm_address(struct transport *t, struct transport_address *address)
{
    const struct segment_name name = segment_name(((struct shm *)t)->segment);
    static_assert(sizeof(name) <= sizeof(address->data), "a name fits");
    address->bytes = sizeof(name);
    memcpy(address->data, &name, sizeof(name));
}

/* Returns NULL, else why rank r cannot be reached. */
static const char *reach(struct shm *s, int r,
                         const struct transport_address *address)
{
    struct peer *p = &s->peers[s->place[r]];
    struct segment_name name;
    if (address->bytes != sizeof(name))
        return "it offers no shared memory";
    memcpy(&name, address->data, sizeof(name));
    if (name.job != s->job->job || name.rank != (uint64_t)r
        || name.nareas != (uint64_t)s->nlocal)
        return "its address is that of another job or rank";
    const size_t mine = (size_t)s->place[s->job->rank];
    const char *wrong = segment_attach(&name, mine, &p->view);
    if (wrong)
        return wrong;
    p->rank = r;
    char *in = segment_area(s->segment, (size_t)s->place[r]);
    const size_t out_bytes = p->view.bytes / WAYS;
    const size_t in_bytes = segment_name(s->segment).area_bytes / WAYS;
    for (size_t i = 0; i < WAYS; i++) {
        struct way *w = &p->ways[i];
        w->sends.last = &w->sends.first;
        w->recvs.last = &w->recvs.first;
        w->out = ring_over((char *)p->view.memory + i * out_bytes, out_bytes,
                           s->job->job);
        w->in = ring_over(in + i * in_bytes, in_bytes, s->job->job);
    }
    return NULL;
}

static coll_status shm_connect(struct transport *t,
                               const struct transport_address *all,
                               bool *reached)
{
    struct shm *s = (struct shm *)t;
    for (int r = 0; r < s->job->nranks; r++) {
        reached[r] = false;
        if (s->place[r] < 0 || r == s->job->rank)
            continue;
        const char *wrong = reach(s, r, &all[r]);
        reached[r] = !wrong;
        if (wrong)
            log_line(COLL_LOG_INFO, "shm", "rank %d is not reached: %s", r,
                     wrong);
    }
    return COLL_OK;
}

const struct transport_ops transport_shm = {
    .name = "shm",
    .open = shm_open,
    .address = shm_address,
    .connect = shm_connect,
    .send = shm_send,
    .recv = shm_recv,
    .progress = shm_progress,
    .packet_bytes = shm_packet_bytes,
    .post = shm_post,
    .hear = shm_hear,
    .cancel = shm_cancel,
    .flush = shm_flush,
    .close = shm_close,
};
