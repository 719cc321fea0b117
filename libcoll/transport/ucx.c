/* SPDX-License-Identifier: MIT */
/* UCX between hosts, by one or several lanes.
 *
 * A lane is an end of its own (ucx_lane.c) on one rail; COLL_UCX_LANES makes
 * several on each. Long messages are cut into pieces, one for a lane, by the
 * rails' rates; short ones go by the first lane, whole. Where to cut follows
 * from the length alone, so that both sides agree without a word; pieces have
 * the whole length in their tags, so that sides which differ in it are found
 * out. Order holds because it does on each lane.
 *
 * UCX's own rails (UCX_MAX_RNDV_RAILS) cut by the speeds that the kernel tells
 * of interfaces, which are not those of virtual ones nor of what lies behind,
 * and make no two connections on one interface.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "transport/transport.h"
#include "transport/ucx_lane.h"

extern const struct transport_ops transport_ucx;

enum {
    MAX_LANES = 16,      /* in all: more addresses would not fit in one */
    PIECE_BYTES = 32768, /* as many pieces as there are such in a message */
    GRAIN_BYTES = 64,    /* where cuts may be */
    PACKET_BYTES = 8000, /* leaves at once, in one piece, by most networks */
    PACKETS_HEARD = 8,   /* so many receives of packets are posted, */
    PACKETS_SENT = 32,   /* and so many packets may be on their way */
};

struct packet {
    struct transfer transfer;
    char data[PACKET_BYTES];
};

/* For words to the peers after a clean flush, of all lanes. */
static const double part_seconds = 0.2;

/* A message in pieces. */
struct striped {
    struct striped *next;
    struct transfer *whole; /* NULL: its failure has been told */
    int npieces;
    struct transfer piece[MAX_LANES];
};

struct ucx {
    struct transport base; /* first: a transport pointer is a ucx pointer */
    int nranks, nrails, nlanes, nopen;
    struct transport *lane[MAX_LANES];
    size_t upto[MAX_LANES + 1]; /* shares of the lanes before, summed up */
    struct striped *flying, *spare;
    int bell;     /* an epoll descriptor of all lanes' */
    bool watches; /* the lanes' are in it */
    /* Of the first lane, used in turn; NULL until packets are. */
    struct packet *heard, *sent[PACKETS_SENT];
    unsigned next_heard, next_sent;
};

/* Never 0, in the bits that a lane tells apart: a piece is no whole message. */
static uint32_t mark_of(size_t bytes)
{
    return (uint32_t)(bytes * UINT64_C(0x9e3779b97f4a7c15) >> 40) | 1;
}

/* What a lane said was of a piece. */
static coll_status other_message(const struct transfer *whole)
{
    return fail(COLL_ERR_MISMATCH, "ucx",
                "rank %d sent another message than the %zu bytes with tag %08x "
                "that this rank expected",
                whole->peer, whole->bytes, whole->tag);
}

/* Whether all pieces are over, or one has failed. What fails is told at once;
 * the other pieces' memory is the lanes' until cancel(). */
static bool is_over(struct striped *s)
{
    bool over = true;
    coll_status status = COLL_OK;
    for (int i = 0; i < s->npieces; i++) {
        over &= s->piece[i].status != COLL_IN_PROGRESS;
        if (s->piece[i].status < 0 && status == COLL_OK)
            status = s->piece[i].status;
    }
    if (s->whole && (over || status < 0)) {
        s->whole->news = s->piece[0].news;
        s->whole->moved = 0; /* a piece does not say of how much */
        s->whole->status =
            status == COLL_ERR_MISMATCH ? other_message(s->whole) : status;
        s->whole = NULL;
    }
    return over;
}

static void land(struct ucx *u)
{
    for (struct striped **at = &u->flying; *at;) {
        struct striped *s = *at;
        if (!is_over(s)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->next = u->spare;
        u->spare = s;
    }
}

static struct striped *take_spare(struct ucx *u)
{
    struct striped *s = u->spare;
    if (s)
        u->spare = s->next;
    return s ? s : malloc(sizeof(*s));
}

static void pass(struct transport *lane, struct transfer *t, bool sends)
{
    (sends ? lane->ops->send : lane->ops->recv)(lane, t);
}

/* In pieces, one by each of the first lanes. */
static void stripe(struct ucx *u, struct transfer *t, int npieces, bool sends)
{
    struct striped *s = take_spare(u);
    size_t begin = 0;
    if (!s) {
        t->status =
            fail(COLL_ERR_MEMORY, "ucx", "no memory for %d pieces", npieces);
        return;
    }
    s->whole = t;
    s->npieces = npieces;
    for (int i = 0; i < npieces; i++) {
        const size_t grains = t->bytes / GRAIN_BYTES;
        const size_t end =
            i + 1 == npieces
                ? t->bytes
                : grains * u->upto[i + 1] / u->upto[npieces] * GRAIN_BYTES;
        s->piece[i] = (struct transfer){
            .buf = (char *)t->buf + begin,
            .bytes = end - begin,
            .peer = t->peer,
            .tag = t->tag ^ mark_of(t->bytes),
            .news = t->news,
            .channel = t->channel,
            .status = end > begin ? COLL_IN_PROGRESS : COLL_OK,
        };
        if (end > begin)
            pass(u->lane[i], &s->piece[i], sends);
        begin = end;
    }
    s->next = u->flying;
    u->flying = s;
    land(u);
}

static void start(struct ucx *u, struct transfer *t, bool sends)
{
    const size_t most = t->bytes / PIECE_BYTES;
    int npieces = most < (size_t)u->nlanes ? (int)most : u->nlanes;
    if (npieces > u->nrails) /* as many by each rail, for its share */
        npieces -= npieces % u->nrails;
    if (npieces < 2)
        pass(u->lane[0], t, sends);
    else
        stripe(u, t, npieces, sends);
}

static void ucx_send(struct transport *t, struct transfer *tx)
{
    start((struct ucx *)t, tx, true);
}

static void ucx_recv(struct transport *t, struct transfer *rx)
{
    start((struct ucx *)t, rx, false);
}

static bool ucx_progress(struct transport *t)
{
    struct ucx *u = (struct ucx *)t;
    bool moved = false;
    for (int i = 0; i < u->nlanes; i++)
        moved |= u->lane[i]->ops->progress(u->lane[i]);
    land(u); /* a lane that failed has moved nothing */
    return moved;
}

static size_t ucx_packet_bytes(const struct transport *t)
{
    (void)t;
    return PACKET_BYTES;
}

static coll_status ucx_post(struct transport *t, int peer, const void *head,
                            size_t head_bytes, const void *body,
                            size_t body_bytes)
{
    struct ucx *u = (struct ucx *)t;
    struct packet **at = &u->sent[u->next_sent % PACKETS_SENT];
    if (*at && (*at)->transfer.status != COLL_OK)
        return (*at)->transfer.status; /* in progress, or its failure */
    if (!*at && !(*at = malloc(sizeof(**at))))
        return fail(COLL_ERR_MEMORY, "ucx", "no memory for a packet");
    memcpy((*at)->data, head, head_bytes);
    if (body_bytes)
        memcpy((*at)->data + head_bytes, body, body_bytes);
    (*at)->transfer = (struct transfer){
        .buf = (*at)->data,
        .bytes = head_bytes + body_bytes,
        .peer = peer,
        .channel = CHANNEL_PACKET,
        .status = COLL_IN_PROGRESS,
    };
    u->next_sent++;
    pass(u->lane[0], &(*at)->transfer, true);
    const coll_status status = (*at)->transfer.status;
    return status < 0 ? status : COLL_OK;
}

static void await_packet(struct ucx *u, struct packet *p)
{
    p->transfer = (struct transfer){
        .buf = p->data,
        .bytes = sizeof(p->data),
        .peer = -1,
        .channel = CHANNEL_PACKET,
        .status = COLL_IN_PROGRESS,
    };
    pass(u->lane[0], &p->transfer, false);
}

static coll_status start_hearing(struct ucx *u)
{
    u->heard = malloc(PACKETS_HEARD * sizeof(*u->heard));
    if (!u->heard)
        return fail(COLL_ERR_MEMORY, "ucx", "no memory for packets");
    for (int i = 0; i < PACKETS_HEARD; i++)
        await_packet(u, &u->heard[i]);
    return COLL_OK;
}

/* In the order in which the receives were posted, which is that of the packets
 * of each peer. */
static coll_status ucx_hear(struct transport *t, transport_heard *heard,
                            void *context)
{
    struct ucx *u = (struct ucx *)t;
    coll_status status = u->heard ? COLL_OK : start_hearing(u);
    bool any = false;
    if (status < 0)
        return status;
    ucx_lane_look(u->lane[0]);
    for (int i = 0; i < PACKETS_HEARD; i++) {
        struct packet *p = &u->heard[u->next_heard % PACKETS_HEARD];
        if (p->transfer.status == COLL_IN_PROGRESS)
            break;
        status = p->transfer.status;
        if (status == COLL_OK)
            status = p->transfer.peer < u->nranks
                         ? heard(context, p->transfer.peer, p->data,
                                 p->transfer.moved)
                         : fail(COLL_ERR_PEER, "ucx",
                                "a packet came of rank %d of %d",
                                p->transfer.peer, u->nranks);
        if (status < 0)
            return status;
        u->next_heard++;
        await_packet(u, p);
        any = true;
    }
    return any ? COLL_OK : COLL_IN_PROGRESS;
}

static int ucx_awaken(struct transport *t)
{
    struct ucx *u = (struct ucx *)t;
    if (u->nlanes == 1)
        return u->lane[0]->ops->awaken(u->lane[0]);
    for (int i = 0; i < u->nlanes; i++) {
        const int fd = u->lane[i]->ops->awaken(u->lane[i]);
        struct epoll_event event = {.events = EPOLLIN};
        if (fd < 0
            || (!u->watches && epoll_ctl(u->bell, EPOLL_CTL_ADD, fd, &event) < 0
                && errno != EEXIST))
            return -1;
    }
    u->watches = true;
    return u->bell;
}

static void ucx_cancel(struct transport *t)
{
    struct ucx *u = (struct ucx *)t;
    for (int i = 0; i < u->nopen; i++)
        u->lane[i]->ops->cancel(u->lane[i]);
    land(u);
}

static coll_status ucx_flush(struct transport *t)
{
    struct ucx *u = (struct ucx *)t;
    coll_status all = COLL_OK;
    for (int i = 0; i < u->nlanes; i++) {
        const coll_status status = u->lane[i]->ops->flush(u->lane[i]);
        all = status != COLL_OK && all >= COLL_OK ? status : all;
    }
    return all;
}

static void free_list(struct striped *s)
{
    while (s) {
        struct striped *next = s->next;
        free(s);
        s = next;
    }
}

static void ucx_close(struct transport *t)
{
    struct ucx *u = (struct ucx *)t;
    double left = part_seconds;
    for (int i = 0; i < u->nopen; i++)
        left = ucx_lane_part(u->lane[i], left);
    for (int i = 0; i < u->nopen; i++)
        u->lane[i]->ops->close(u->lane[i]);
    if (u->bell >= 0)
        close(u->bell);
    free_list(u->flying);
    free_list(u->spare);
    for (int i = 0; i < PACKETS_SENT; i++)
        free(u->sent[i]);
    free(u->heard);
    free(u);
}

/* Lanes take turns on the rails, so that the first of them are on all. */
static coll_status open_lanes(struct ucx *u, const struct transport_job *job)
{
    u->nrails = job->nrails > 0 ? job->nrails : 1;
    const int most = MAX_LANES / u->nrails;
    const int each = job->lanes < most ? job->lanes : most;
    u->nlanes = u->nrails * (each > 0 ? each : 1);
    if (job->lanes > most && job->rank == 0)
        log_line(COLL_LOG_WARN, "ucx",
                 "%d lanes on each of %d rails, not %d: %d in all are the most",
                 each, u->nrails, job->lanes, MAX_LANES);
    for (int i = 0; i < u->nlanes; i++) {
        const struct transport_rail *rail =
            job->nrails > 0 ? &job->rails[i % u->nrails] : NULL;
        const coll_status status = ucx_lane_open(&u->lane[i], job, rail);
        if (status < 0)
            return status;
        u->nopen++;
        u->upto[i + 1] = u->upto[i] + (rail ? (size_t)rail->share : 1);
    }
    return COLL_OK;
}

static coll_status ucx_open(struct transport **t,
                            const struct transport_job *job)
{
    struct ucx *u = calloc(1, sizeof(*u));
    if (!u)
        return fail(COLL_ERR_MEMORY, "ucx", "no memory for a transport");
    u->base.ops = &transport_ucx;
    u->nranks = job->nranks;
    u->bell = epoll_create1(EPOLL_CLOEXEC);
    const coll_status status = u->bell >= 0
                                   ? open_lanes(u, job)
                                   : fail(COLL_ERR_SYSTEM, "ucx",
                                          "epoll_create1: %s", strerror(errno));
    if (status < 0)
        ucx_close(&u->base);
    else
        *t = &u->base;
    return status;
}

/* Of each lane two bytes of length and as many of address; nothing else. */
static void ucx_address(struct transport *t, struct transport_address *address)
{
    struct ucx *u = (struct ucx *)t;
    struct transport_address one;
    size_t used = 0;
    address->bytes = 0;
    for (int i = 0; i < u->nlanes; i++) {
        u->lane[i]->ops->address(u->lane[i], &one);
        const uint16_t length = (uint16_t)one.bytes;
        if (one.bytes == 0)
            return;
        if (used + sizeof(length) + length > sizeof(address->data)) {
            log_line(COLL_LOG_WARN, "ucx",
                     "the addresses of %d lanes take more than %zu bytes: set "
                     "a smaller COLL_UCX_LANES",
                     u->nlanes, sizeof(address->data));
            return;
        }
        memcpy(address->data + used, &length, sizeof(length));
        memcpy(address->data + used + sizeof(length), one.data, length);
        used += sizeof(length) + length;
    }
    address->bytes = (uint32_t)used;
}

/* Lane i's part of an address, or one of 0 bytes: it is malformed, or has not
 * as many lanes. */
static void part(const struct transport_address *whole, int nlanes, int lane,
                 struct transport_address *found)
{
    size_t at = 0;
    found->bytes = 0;
    for (int i = 0; i < nlanes; i++) {
        uint16_t length;
        if (at + sizeof(length) > whole->bytes)
            return;
        memcpy(&length, whole->data + at, sizeof(length));
        at += sizeof(length);
        if (at + length > whole->bytes)
            return;
        if (i == lane)
            memcpy(found->data, whole->data + at, found->bytes = length);
        at += length;
    }
    if (at != whole->bytes)
        found->bytes = 0;
}

static coll_status ucx_connect(struct transport *t,
                               const struct transport_address *all,
                               bool *reached)
{
    struct ucx *u = (struct ucx *)t;
    const size_t n = (size_t)u->nranks;
    struct transport_address *parts = calloc(n, sizeof(*parts));
    bool *by_lane = calloc(n, sizeof(*by_lane));
    coll_status status = parts && by_lane ? COLL_OK
                                          : fail(COLL_ERR_MEMORY, "ucx",
                                                 "no memory for addresses");
    for (int i = 0; i < u->nlanes && status == COLL_OK; i++) {
        for (size_t r = 0; r < n; r++)
            part(&all[r], u->nlanes, i, &parts[r]);
        status = u->lane[i]->ops->connect(u->lane[i], parts, by_lane);
        for (size_t r = 0; r < n; r++)
            reached[r] = (i == 0 || reached[r]) && by_lane[r];
    }
    free(parts);
    free(by_lane);
    return status;
}

const struct transport_ops transport_ucx = {
    .name = "ucx",
    .open = ucx_open,
    .address = ucx_address,
    .connect = ucx_connect,
    .send = ucx_send,
    .recv = ucx_recv,
    .progress = ucx_progress,
    .packet_bytes = ucx_packet_bytes,
    .post = ucx_post,
    .hear = ucx_hear,
    .awaken = ucx_awaken,
    .cancel = ucx_cancel,
    .flush = ucx_flush,
    .close = ucx_close,
};
