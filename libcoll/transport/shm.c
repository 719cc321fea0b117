/* SPDX-License-Identifier: MIT */
/* Shared memory between the ranks of one host: processes, threads, or both.
 *
 * Each rank owns a segment with one ring per rank of its host, which that rank
 * fills. A send copies into the ring, a receive from it straight into the
 * caller's buffer; each ring carries the messages of one ordered pair, so they
 * match in posting order without a search. After connect() no call takes
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

struct peer {
    struct ring in, out;
    struct queue sends, recvs;
    uint64_t unwanted; /* bytes to come of a message that did not match */
    bool active;       /* on the list of those with something to do */
    bool broken;       /* it wrote what no rank of libcoll writes */
    int rank;
    struct segment_view view; /* of the ring that this rank fills */
};

struct shm {
    struct transport base; /* first: a transport pointer is a shm pointer */
    const struct transport_job *job;
    struct segment *segment;
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
    while (p->sends.first)
        finish(&p->sends, status);
    while (p->recvs.first)
        finish(&p->recvs, status);
    p->unwanted = 0;
}

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void broken(struct peer *p, const char *what)
{
    p->broken = true;
    finish_all(p, fail(COLL_ERR_PEER, "shm",
                       "rank %d wrote an impossible %s into shared memory",
                       p->rank, what));
}

/* Fills cells from the oldest sends while there is room, at most one ring of
 * them, so that other peers get their turn. */
static bool push(struct peer *p)
{
    uint64_t filled = 0;
    bool impossible = false;
    for (struct transfer *tx; (tx = p->sends.first) && filled < p->out.ncells
                              && ring_writable(&p->out, &impossible);
         filled++) {
        struct ring_cell *cell = ring_cell(&p->out);
        const size_t here =
            at_most(tx->bytes - tx->moved, ring_capacity(&p->out));
        memcpy(ring_payload(cell, here), (const char *)tx->buf + tx->moved,
               here);
        /* The reader is watching this line: it is written at one go. */
        cell->total = tx->bytes;
        cell->tag = tx->tag;
        cell->here = (uint16_t)here;
        cell->news = tx->news;
        ring_filled(&p->out);
        tx->moved += here;
        if (tx->moved == tx->bytes)
            finish(&p->sends, COLL_OK);
    }
    if (impossible)
        broken(p, "count of cells read");
    return filled > 0;
}

/* The first cell of a message against the receive that is next in line. */
static bool matches(struct peer *p, const struct ring_cell *cell)
{
    struct transfer *rx = p->recvs.first;
    const uint32_t tag = cell->tag;
    const uint64_t total = cell->total;
    rx->news = cell->news;
    if (tag == rx->tag && total == rx->bytes)
        return true;
    p->unwanted = total;
    finish(&p->recvs,
           fail(COLL_ERR_MISMATCH, "shm",
                "rank %d sent %llu bytes with tag %08x, this rank expected "
                "%zu bytes with tag %08x",
                p->rank, (unsigned long long)total, tag, rx->bytes, rx->tag));
    return false;
}

/* The part of the message that the cell must hold, copied if wanted. */
static void take(struct peer *p, struct ring_cell *cell)
{
    struct transfer *rx = p->unwanted ? NULL : p->recvs.first;
    const size_t here = at_most(rx ? rx->bytes - rx->moved : p->unwanted,
                                ring_capacity(&p->in));
    if (cell->here != here) {
        broken(p, "length of a message's part");
        return;
    }
    if (rx) {
        memcpy((char *)rx->buf + rx->moved, ring_payload(cell, here), here);
        rx->moved += here;
    } else {
        p->unwanted -= here;
    }
    ring_emptied(&p->in);
    if (rx && rx->moved == rx->bytes)
        finish(&p->recvs, COLL_OK);
}

/* Empties cells into the oldest receives, at most one ring of them. */
static bool pull(struct peer *p)
{
    uint64_t emptied = 0;
    while (emptied < p->in.ncells && (p->unwanted || p->recvs.first)
           && ring_readable(&p->in)) {
        struct ring_cell *cell = ring_cell(&p->in);
        if (!p->unwanted && p->recvs.first->moved == 0 && !matches(p, cell)
            && !p->unwanted)
            broken(p, "message of no bytes");
        else
            take(p, cell);
        if (p->broken)
            return true;
        emptied++;
    }
    return emptied > 0;
}

static bool busy(const struct peer *p)
{
    return p->sends.first || p->recvs.first || p->unwanted;
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
static bool move(struct shm *s, struct peer *p)
{
    const bool pushed = push(p), pulled = pull(p);
    if ((pushed || pulled) && s->job->node)
        node_ring(s->job->node, (int)(p - s->peers));
    return pushed || pulled;
}

static void shm_send(struct transport *t, struct transfer *tx)
{
    struct shm *s = (struct shm *)t;
    struct peer *p = &s->peers[s->place[tx->peer]];
    assert(p->view.memory && p->rank == tx->peer);
    if (refused(s, p, tx))
        return;
    const bool first = !p->sends.first;
    enqueue(&p->sends, tx);
    if (first)
        move(s, p);
    activate(s, p);
}

static void shm_recv(struct transport *t, struct transfer *rx)
{
    struct shm *s = (struct shm *)t;
    struct peer *p = &s->peers[s->place[rx->peer]];
    assert(p->view.memory && p->rank == rx->peer);
    if (refused(s, p, rx))
        return;
    const bool first = !p->recvs.first;
    enqueue(&p->recvs, rx);
    if (first)
        move(s, p);
    activate(s, p);
}

static bool shm_progress(struct transport *t)
{
    struct shm *s = (struct shm *)t;
    bool moved = false;
    for (int i = 0; i < s->nactive;) {
        struct peer *p = s->active[i];
        moved |= move(s, p);
        p->active = busy(p);
        if (p->active)
            i++;
        else
            s->active[i] = s->active[--s->nactive];
    }
    return moved;
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
        if (s->active[i]->sends.first)
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

static coll_status shm_open(struct transport **t,
                            const struct transport_job *job)
{
    size_t ring_bytes;
    coll_status status = setting_bytes(SETTING_SHM_RING, RING_MIN_BYTES,
                                       SEGMENT_MAX_AREA_BYTES, &ring_bytes);
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
                                (size_t)s->nlocal, ring_bytes);
    if (status < 0) {
        shm_close(&s->base);
        return status;
    }
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
    p->sends.last = &p->sends.first;
    p->recvs.last = &p->recvs.first;
    p->out = ring_over(p->view.memory, p->view.bytes, s->job->job);
    p->in = ring_over(segment_area(s->segment, (size_t)s->place[r]),
                      segment_name(s->segment).area_bytes, s->job->job);
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
    .cancel = shm_cancel,
    .flush = shm_flush,
    .close = shm_close,
};
