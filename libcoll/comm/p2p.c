/* SPDX-License-Identifier: MIT */
#include "comm/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/request.h"

enum {
    OWN_SHORT_BYTES = 8192, /* to itself: longer ones wait for a receive */
    PULL_BYTES = 1 << 20,   /* from here on the kernel's copy of another
                               process's memory is the faster way */
    IDLE_TURNS = 16,        /* of which one listens while no request is open */
};

coll_status p2p_open(coll_comm *c)
{
    if (c->p2p)
        return COLL_OK;
    struct p2p *p = calloc(1, sizeof(*p));
    if (p)
        p->peers = calloc((size_t)c->nranks, sizeof(*p->peers));
    if (!p || !p->peers) {
        free(p);
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d peers",
                    c->nranks);
    }
    p->any.last = &p->any.first;
    p->flying.last = &p->flying.first;
    for (int i = 0; i < c->nranks; i++) {
        struct p2p_peer *peer = &p->peers[i];
        peer->receives.last = &peer->receives.first;
        peer->sends.last = &peer->sends.first;
        peer->last_message = &peer->messages;
        peer->last_out = &peer->out;
    }
    c->p2p = p;
    return COLL_OK;
}

/* Of a peer whose packets make no sense. */
static coll_status nonsense(int peer, const char *what)
{
    return fail(COLL_ERR_PEER, "comm", "rank %d sent a packet with %s", peer,
                what);
}

static void begin_request(coll_comm *c, bool sends)
{
    c->p2p->busy++;
    c->p2p->sending += sends;
}

static void finish_request(coll_request *r, coll_status status)
{
    struct p2p *p = r->comm->p2p;
    p->busy--;
    p->sending -= r->p2p.way == P2P_SEND;
    r->comm->points++;
    r->status = status;
    p2p_record_end(r);
}

/* --- packets out -----------------------------------------------------------
 */

static coll_status heard(void *context, int peer, const void *packet,
                         size_t bytes);
static coll_status handle(coll_comm *, int peer, const struct p2p_head *,
                          const void *body, size_t bytes);

/* OK: it is on its way; IN_PROGRESS: there is no room. */
static coll_status post(coll_comm *c, int peer, struct p2p_head *head,
                        const void *body, size_t bytes)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    struct transport *to = c->to[peer];
    head->taken = p->taken;
    const coll_status status =
        peer == c->rank
            ? handle(c, peer, head, body, bytes)
            : to->ops->post(to, peer, head, sizeof(*head), body, bytes);
    if (status == COLL_OK)
        p->told = head->taken;
    return status;
}

static coll_status keep_out(coll_comm *c, int peer, const struct p2p_out *out)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    struct p2p_out *o = malloc(sizeof(*o));
    if (!o)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for a packet");
    *o = *out;
    if (o->head.kind == P2P_LONG)
        o->body = &o->offer;
    o->next = NULL;
    *p->last_out = o;
    p->last_out = &o->next;
    c->p2p->nout++;
    return COLL_OK;
}

/* Behind those that wait for room. */
static coll_status put(coll_comm *c, int peer, struct p2p_out *o)
{
    const coll_status status = c->p2p->peers[peer].out
                                   ? COLL_IN_PROGRESS
                                   : post(c, peer, &o->head, o->body, o->bytes);
    if (status == COLL_IN_PROGRESS)
        return keep_out(c, peer, o);
    if (status == COLL_OK && o->send)
        finish_request(o->send, COLL_OK);
    return status;
}

static coll_status answer(coll_comm *c, int peer, enum p2p_packet kind,
                          uint32_t id)
{
    struct p2p_out o = {
        .head = {.kind = kind, .id = id}
    };
    return put(c, peer, &o);
}

static coll_status put_waiting(coll_comm *c, int peer, bool *moved)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    for (struct p2p_out *o; (o = p->out);) {
        const coll_status status = post(c, peer, &o->head, o->body, o->bytes);
        if (status != COLL_OK)
            return status == COLL_IN_PROGRESS ? COLL_OK : status;
        *moved = true;
        p->out = o->next;
        if (!p->out)
            p->last_out = &p->out;
        c->p2p->nout--;
        if (o->send)
            finish_request(o->send, COLL_OK);
        free(o);
    }
    return COLL_OK;
}

/* --- messages out ----------------------------------------------------------
 */

static size_t short_bytes(const coll_comm *c, int peer)
{
    const struct transport *to = c->to[peer];
    return peer == c->rank
               ? OWN_SHORT_BYTES
               : to->ops->packet_bytes(to) - sizeof(struct p2p_head);
}

static struct node_offer offer_of(const coll_comm *c, int peer, const void *in,
                                  size_t bytes)
{
    return peer == c->rank ? (struct node_offer){.address = (uintptr_t)in}
                           : node_offer(c->node, peer, in, bytes);
}

/* Whether one copy by who receives, and an answer, take less than two. */
static bool is_best_offered(const coll_request *r)
{
    const coll_comm *c = r->comm;
    return c->node && r->p2p.bytes > c->node->inline_bytes
           && r->p2p.peer != c->rank
           && offer_of(c, r->p2p.peer, r->in, r->p2p.bytes).spot.bytes;
}

coll_status p2p_send(coll_request *r)
{
    coll_comm *c = r->comm;
    const int peer = r->p2p.peer;
    struct p2p_peer *p = &c->p2p->peers[peer];
    const size_t bytes = r->p2p.bytes;
    struct p2p_out o = {
        .head = {.kind = P2P_SHORT,
                 .dtype = (uint8_t)r->dtype,
                 .tag = r->p2p.tag,
                 .count = r->count},
        .body = r->in,
        .bytes = bytes,
        .send = r,
    };
    begin_request(c, true);
    if (bytes <= short_bytes(c, peer) && !is_best_offered(r)
        && p->sent - p->freed + bytes + P2P_MESSAGE_BYTES <= P2P_KEPT_BYTES) {
        p->sent += (uint32_t)bytes + P2P_MESSAGE_BYTES;
        return put(c, peer, &o);
    }
    o.head.kind = P2P_LONG;
    o.head.id = r->p2p.id = c->p2p->id++;
    o.offer = offer_of(c, peer, r->in, bytes);
    o.body = &o.offer;
    o.bytes = sizeof(o.offer);
    o.send = NULL;
    p2p_wait_in(&p->sends, r);
    return put(c, peer, &o);
}

/* The peer has posted the transfer. */
static coll_status send_data(coll_request *r)
{
    struct transport *to = r->comm->to[r->p2p.peer];
    r->p2p.transfer = (struct transfer){
        .buf = (void *)(uintptr_t)r->in,
        .bytes = r->p2p.bytes,
        .peer = r->p2p.peer,
        .tag = r->p2p.id,
        .channel = CHANNEL_DATA,
        .status = COLL_IN_PROGRESS,
    };
    p2p_wait_in(&r->comm->p2p->flying, r);
    to->ops->send(to, &r->p2p.transfer);
    return COLL_OK;
}

/* --- messages in -----------------------------------------------------------
 */

static coll_status check(const coll_request *r, int peer,
                         const struct p2p_head *head)
{
    const bool alike = (coll_dtype)head->dtype == r->dtype;
    if (alike && head->count <= r->count)
        return COLL_OK;
    return fail(COLL_ERR_MISMATCH, "comm",
                "rank %d sent %llu %s with tag %d to rank %d, which receives "
                "%s%zu %s with tag %d%s: %s",
                peer, (unsigned long long)head->count,
                coll_dtype_name((coll_dtype)head->dtype), head->tag,
                r->comm->rank, alike ? "at most " : "", r->count,
                coll_dtype_name(r->dtype), head->tag,
                r->p2p.tag == COLL_ANY_TAG ? " (any)" : "",
                alike ? "the message is truncated" : "the datatypes differ");
}

static void describe(coll_request *r, int peer, const struct p2p_head *head)
{
    r->p2p.got = (coll_message){
        .source = peer, .tag = head->tag, .count = (size_t)head->count};
    if (r->p2p.message)
        *r->p2p.message = r->p2p.got;
}

/* Memory for more short messages is given back in large steps, unless a packet
 * goes there anyway. */
static coll_status note_taken(coll_comm *c, int peer, size_t bytes)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    p->taken += (uint32_t)bytes + P2P_MESSAGE_BYTES;
    return p->taken - p->told > P2P_KEPT_BYTES / 2
               ? answer(c, peer, P2P_TAKEN, 0)
               : COLL_OK;
}

static coll_status take_short(coll_request *r, int peer,
                              const struct p2p_head *head, const void *data)
{
    const size_t bytes = (size_t)head->count * r->elem_bytes;
    if (bytes)
        memcpy(r->out, data, bytes);
    describe(r, peer, head);
    finish_request(r, COLL_OK);
    return note_taken(r->comm, peer, bytes);
}

/* From where it lies, if it can be read there. */
static coll_status pull(const coll_request *r, int peer,
                        const struct node_offer *offer, size_t bytes)
{
    const coll_comm *c = r->comm;
    if (peer != c->rank)
        return node_pull(c->node, peer, r->out, offer, bytes,
                         bytes >= PULL_BYTES);
    memcpy(r->out, (const void *)(uintptr_t)offer->address, bytes);
    return COLL_OK;
}

/* It has no elements where it came when no room was left for short ones. */
static coll_status take_long(coll_request *r, int peer,
                             const struct p2p_head *head,
                             const struct node_offer *offer)
{
    coll_comm *c = r->comm;
    const size_t bytes = (size_t)head->count * r->elem_bytes;
    struct transport *from = c->to[peer];
    describe(r, peer, head);
    const coll_status status = bytes ? pull(r, peer, offer, bytes) : COLL_OK;
    if (status != COLL_IN_PROGRESS) {
        finish_request(r, status);
        return status == COLL_OK ? answer(c, peer, P2P_DONE, head->id) : status;
    }
    r->p2p.transfer = (struct transfer){
        .buf = r->out,
        .bytes = bytes,
        .peer = peer,
        .tag = head->id,
        .channel = CHANNEL_DATA,
        .status = COLL_IN_PROGRESS,
    };
    p2p_wait_in(&c->p2p->flying, r);
    from->ops->recv(from, &r->p2p.transfer);
    return answer(c, peer, P2P_COME, head->id);
}

/* data: of a short message. */
static coll_status take(coll_request *r, int peer, const struct p2p_head *head,
                        const struct node_offer *offer, const void *data)
{
    const coll_status status = check(r, peer, head);
    if (status < 0) {
        finish_request(r, status);
        return status;
    }
    return head->kind == P2P_SHORT ? take_short(r, peer, head, data)
                                   : take_long(r, peer, head, offer);
}

coll_status p2p_receive(coll_request *r)
{
    struct p2p *p = r->comm->p2p;
    int peer = 0;
    struct p2p_message *m = p2p_match_message(p, r->comm->nranks, r, &peer);
    begin_request(r->comm, false);
    if (m) {
        const coll_status status = take(r, peer, &m->head, &m->offer, m->data);
        free(m);
        return status;
    }
    r->p2p.order = p->order++;
    p2p_wait_in(r->p2p.peer == COLL_ANY_SOURCE
                    ? &p->any
                    : &p->peers[r->p2p.peer].receives,
                r);
    return COLL_OK;
}

/* --- packets in ------------------------------------------------------------
 */

static coll_status check_left(const coll_comm *c)
{
    int n = 0, of = 0;
    const struct p2p_message *first = NULL;
    for (int i = 0; c->p2p && i < c->nranks; i++)
        for (const struct p2p_message *m = c->p2p->peers[i].messages; m;
             m = m->next, n++)
            if (!first || m->order < first->order) {
                first = m;
                of = i;
            }
    if (!first)
        return COLL_OK;
    return fail(
        COLL_ERR_MISMATCH, "comm",
        "rank %d leaves without having received %d message%s; the first "
        "is %llu %s with tag %d from rank %d",
        c->rank, n, n > 1 ? "s" : "", (unsigned long long)first->head.count,
        coll_dtype_name((coll_dtype)first->head.dtype), first->head.tag, of);
}

static coll_status keep_message(coll_comm *c, int peer,
                                const struct p2p_head *head,
                                const struct node_offer *offer,
                                const void *data, size_t bytes)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    struct p2p_message *m = malloc(sizeof(*m) + bytes);
    if (!m)
        return fail(COLL_ERR_MEMORY, "comm",
                    "no memory for %zu bytes of rank %d", bytes, peer);
    m->next = NULL;
    m->order = c->p2p->order++;
    m->head = *head;
    m->offer = *offer;
    if (bytes)
        memcpy(m->data, data, bytes);
    *p->last_message = m;
    p->last_message = &m->next;
    return c->p2p->leaves ? check_left(c) : COLL_OK;
}

static coll_status handle_message(coll_comm *c, int peer,
                                  const struct p2p_head *head, const void *body,
                                  size_t bytes)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    const size_t elem = coll_dtype_bytes((coll_dtype)head->dtype);
    const bool is_short = head->kind == P2P_SHORT;
    struct node_offer offer = {0};
    if (!elem || head->tag < 0)
        return nonsense(peer, "an impossible datatype or tag");
    if (is_short ? head->count > bytes || head->count * elem != bytes
                 : bytes != sizeof(offer) || head->count > SIZE_MAX / 2 / elem)
        return nonsense(peer, "an impossible length");
    if (is_short) {
        p->heard += (uint32_t)bytes + P2P_MESSAGE_BYTES;
        if (p->heard - p->taken > P2P_KEPT_BYTES)
            return nonsense(peer, "more than this rank keeps");
    } else {
        memcpy(&offer, body, sizeof(offer));
    }
    coll_request *r = p2p_match_receive(c->p2p, peer, head->tag);
    return r ? take(r, peer, head, &offer, body)
             : keep_message(c, peer, head, &offer, is_short ? body : NULL,
                            is_short ? bytes : 0);
}

static coll_status handle(coll_comm *c, int peer, const struct p2p_head *head,
                          const void *body, size_t bytes)
{
    struct p2p_peer *p = &c->p2p->peers[peer];
    if (head->taken - p->freed > p->sent - p->freed)
        return nonsense(peer, "an impossible count of bytes taken");
    p->freed = head->taken;
    if (head->kind == P2P_SHORT || head->kind == P2P_LONG)
        return handle_message(c, peer, head, body, bytes);
    if (head->kind > P2P_TAKEN || bytes)
        return nonsense(peer, "an unknown kind or length");
    if (head->kind == P2P_TAKEN)
        return COLL_OK;
    coll_request *r = p2p_take_send(&p->sends, head->id);
    if (!r || (head->kind == P2P_COME && (peer == c->rank || !r->p2p.bytes)))
        return nonsense(peer, "a message that this rank has not sent");
    if (head->kind == P2P_COME)
        return send_data(r);
    finish_request(r, COLL_OK);
    return COLL_OK;
}

static coll_status heard(void *context, int peer, const void *packet,
                         size_t bytes)
{
    struct p2p_head head; /* a copy, as the peer may write into the packet */
    if (bytes < sizeof(head))
        return nonsense(peer, "no head");
    memcpy(&head, packet, sizeof(head));
    return handle(context, peer, &head, (const char *)packet + sizeof(head),
                  bytes - sizeof(head));
}

/* --- all of it -------------------------------------------------------------
 */

static coll_status land(coll_comm *c, bool *moved)
{
    struct p2p_waiting *w = &c->p2p->flying;
    for (coll_request **at = &w->first; *at;) {
        coll_request *r = *at;
        const coll_status status = r->p2p.transfer.status;
        if (status == COLL_IN_PROGRESS) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        if (w->last == &r->next)
            w->last = at;
        *moved = true;
        finish_request(r, status);
        if (status < 0)
            return status;
    }
    return COLL_OK;
}

coll_status p2p_advance(coll_comm *c, bool *moved)
{
    struct p2p *p = c->p2p;
    coll_status status = COLL_OK;
    if (!p->busy && !p->nout && p->turn++ % IDLE_TURNS)
        return COLL_OK;
    for (int i = 0; i < c->nopen; i++) {
        struct transport *t = c->open[i];
        status = t->ops->hear ? t->ops->hear(t, heard, c) : COLL_IN_PROGRESS;
        *moved |= status == COLL_OK;
        if (status < 0)
            return status;
    }
    status = COLL_OK;
    for (int i = 0; p->nout && i < c->nranks && status == COLL_OK; i++)
        status = put_waiting(c, i, moved);
    return status == COLL_OK ? land(c, moved) : status;
}

bool p2p_awaits(const coll_comm *c, int rank)
{
    const struct p2p_peer *p = c->p2p ? &c->p2p->peers[rank] : NULL;
    if (p && (p->receives.first || p->sends.first || p->out))
        return true;
    for (const coll_request *r = p ? c->p2p->flying.first : NULL; r;
         r = r->next)
        if (r->p2p.transfer.peer == rank)
            return true;
    return false;
}

coll_status p2p_listen(coll_comm *c)
{
    bool moved;
    coll_status status = COLL_OK;
    do {
        moved = false;
        c->p2p->turn = 0;
        status = p2p_advance(c, &moved);
    } while (moved && status == COLL_OK);
    return status;
}

static void end_list(struct p2p_waiting *w, coll_status status)
{
    for (coll_request *r = w->first, *next; r; r = next) {
        next = r->next;
        finish_request(r, status);
    }
    w->first = NULL;
    w->last = &w->first;
}

void p2p_end(coll_comm *c, coll_status status)
{
    if (!c->p2p)
        return;
    end_list(&c->p2p->any, status);
    end_list(&c->p2p->flying, status);
    for (int i = 0; i < c->nranks; i++) {
        struct p2p_peer *p = &c->p2p->peers[i];
        end_list(&p->receives, status);
        end_list(&p->sends, status);
        for (struct p2p_out *o; (o = p->out);) {
            p->out = o->next;
            if (o->send)
                finish_request(o->send, status);
            free(o);
        }
        p->last_out = &p->out;
    }
    c->p2p->nout = 0;
    c->p2p->busy = c->p2p->sending =
        0; /* and what failed before it was in one */
}

void p2p_free(coll_comm *c)
{
    if (!c->p2p)
        return;
    p2p_end(c, COLL_ERR_ABORTED);
    for (int i = 0; i < c->nranks; i++)
        for (struct p2p_message *m = c->p2p->peers[i].messages, *next; m;
             m = next) {
            next = m->next;
            free(m);
        }
    free(c->p2p->peers);
    free(c->p2p);
    c->p2p = NULL;
}

coll_status p2p_leave(coll_comm *c)
{
    c->p2p->leaves = true;
    return check_left(c);
}
