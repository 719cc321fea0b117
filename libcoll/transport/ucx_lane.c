/* SPDX-License-Identifier: MIT */
/* A lane of UCX: InfiniBand, RoCE, TCP and whatever else UCX knows.
 *
 * One worker, of which the communicator's thread is the only user.
 * Data go from and to the caller's memory. Endpoints are made at the first
 * message to a rank. UCX moves data and no more: whether a peer lives is for
 * the bootstrap connections to find out, so endpoints do without UCX's own
 * error mode, which would cost shared memory.
 *
 * A UCX tag is the job's low 6 bits, the channel in 2, the sender's rank in 20,
 * 10 bits of news and 26 of the operation's fingerprint. Matching leaves out
 * the last two, so that a rank that makes another call is found out instead of
 * waited for; of packets it leaves out the rank too.
 */
#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "transport/transport.h"
#include "transport/ucx_lane.h"
#include "transport/ucx_load.h"
#include "transport/ucx_start.h"

static const struct transport_ops lane_ops;

enum {
    MAX_RANKS = 1 << 20, /* RANK_BITS: that a tag can tell apart */
    IDLE_TURNS = 16      /* polls in which an idle rank looks once */
};

enum { FINGERPRINT_BITS = 26, NEWS_BITS = 10 };
enum { RANK_BITS = 20, RANK_SHIFT = FINGERPRINT_BITS + NEWS_BITS };
enum { CHANNEL_SHIFT = RANK_SHIFT + RANK_BITS, JOB_SHIFT = CHANNEL_SHIFT + 2 };
static const uint64_t who_sends = ~UINT64_C(0) << RANK_SHIFT;
static const uint64_t which_channel = ~UINT64_C(0) << CHANNEL_SHIFT;
static const uint32_t fingerprint_mask = (UINT32_C(1) << FINGERPRINT_BITS) - 1;
static const char magic[4] = "UCX1"; /* how an address starts */

struct peer {
    ucp_ep_h endpoint;      /* NULL before the first send */
    ucp_address_t *address; /* NULL: not reached */
    ucs_status_t failed;    /* UCS_OK, or what UCX said of the endpoint */
    bool told;              /* its transfers have been ended for that */
};

struct lane {
    struct transport base; /* first: a transport pointer is a lane pointer */
    const struct transport_job *job;
    const struct ucx_api *api;
    ucp_context_h context;
    ucp_worker_h worker; /* NULL after cancel() */
    struct peer *peers;
    struct transfer *flying; /* those that UCX did not finish at once */
    unsigned awaited;        /* of them, all but receives of packets */
    unsigned turn;           /* of progress() while nothing flies */
    void *flushing;          /* a request, or NULL */
    bool flushed;            /* nothing was sent since a flush succeeded */
    bool any_failed;         /* some peer has failed and is not told */
};

/* A call's fingerprint has 32 bits; all of them count. */
static uint32_t fold(uint32_t fingerprint)
{
    return (fingerprint ^ fingerprint >> FINGERPRINT_BITS) & fingerprint_mask;
}

static coll_status meaning(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return COLL_OK;
    case UCS_ERR_CANCELED:
        return COLL_ERR_ABORTED;
    case UCS_ERR_NO_MEMORY:
        return COLL_ERR_MEMORY;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_SHMEM_SEGMENT:
        return COLL_ERR_PEER;
    default:
        return COLL_ERR_SYSTEM;
    }
}

/* Errors are rare, so their names need not be quick. */
static const char *text(ucs_status_t status)
{
    const struct ucx_api *api;
    return ucx_load(&api) == COLL_OK ? api->ucs_status_string(status) : "?";
}

static coll_status sent(const struct transfer *tx, ucs_status_t status)
{
    /* A receiver without room for the message knows it, and tells. */
    if (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED)
        return COLL_OK;
    return fail(meaning(status), "ucx", "cannot send to rank %d: %s", tx->peer,
                text(status));
}

static coll_status received(struct transfer *rx, ucs_status_t status,
                            const ucp_tag_recv_info_t *info)
{
    const uint32_t tag = (uint32_t)info->sender_tag & fingerprint_mask;
    const uint32_t wanted = fold(rx->tag);
    if (status == UCS_OK && rx->channel == CHANNEL_PACKET)
        return COLL_OK;
    if (status != UCS_OK && status != UCS_ERR_MESSAGE_TRUNCATED)
        return fail(meaning(status), "ucx", "cannot receive from rank %d: %s",
                    rx->peer, text(status));
    if (status == UCS_OK && info->length == rx->bytes && tag == wanted)
        return COLL_OK;
    rx->tag ^= tag ^ wanted;
    return fail(COLL_ERR_MISMATCH, "ucx",
                "rank %d sent %zu bytes with tag %08x, this rank expected %zu "
                "bytes with tag %08x",
                rx->peer, info->length, tag, rx->bytes, wanted);
}

static void on_sent(void *request, ucs_status_t status, void *transfer)
{
    struct transfer *tx = transfer;
    (void)request;
    if (tx->status == COLL_IN_PROGRESS)
        tx->status = sent(tx, status);
}

static void on_received(void *request, ucs_status_t status,
                        const ucp_tag_recv_info_t *info, void *transfer)
{
    struct transfer *rx = transfer;
    (void)request;
    if (rx->status != COLL_IN_PROGRESS)
        return;
    rx->news = info->sender_tag >> FINGERPRINT_BITS & ((1u << NEWS_BITS) - 1);
    rx->peer = info->sender_tag >> RANK_SHIFT & (MAX_RANKS - 1);
    rx->moved = info->length;
    rx->status = received(rx, status, info);
}

/* Ends a transfer on our own word. If the request is not over, UCX calls back
 * now or no more, and finds it released when the worker is destroyed. */
static void drop(struct lane *u, struct transfer *t, coll_status status)
{
    if (t->status == COLL_IN_PROGRESS) {
        t->status = status;
        u->api->ucp_request_cancel(u->worker, t->handle);
    }
    u->api->ucp_request_free(t->handle);
}

static void count_awaited(struct lane *u)
{
    u->awaited = 0;
    for (const struct transfer *t = u->flying; t; t = t->next)
        u->awaited += t->peer >= 0;
}

/* Takes those that are over off the list. */
static void land(struct lane *u)
{
    for (struct transfer **at = &u->flying; *at;) {
        struct transfer *t = *at;
        if (t->status == COLL_IN_PROGRESS) {
            at = &t->next;
        } else {
            *at = t->next;
            u->api->ucp_request_free(t->handle);
        }
    }
    count_awaited(u);
}

static void end_all(struct lane *u, int peer, coll_status status)
{
    for (struct transfer **at = &u->flying; *at;) {
        struct transfer *t = *at;
        if (peer >= 0 && t->peer != peer) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        drop(u, t, status);
    }
    count_awaited(u);
}

static coll_status lost(int peer, const struct peer *p)
{
    return fail(COLL_ERR_PEER, "ucx", "the connection to rank %d is lost: %s",
                peer, text(p->failed));
}

/* Ends the transfers of the peers that failed since the last time. */
static void tell(struct lane *u)
{
    u->any_failed = false;
    for (int r = 0; r < u->job->nranks; r++) {
        struct peer *p = &u->peers[r];
        if (p->failed == UCS_OK || p->told)
            continue;
        p->told = true;
        end_all(u, r, lost(r, p));
    }
}

/* UCX's word on an endpoint. It may come in the middle of a call, so all else
 * waits for progress(). */
static void on_failure(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
    struct lane *u = context;
    for (int r = 0; r < u->job->nranks; r++)
        if (u->peers[r].endpoint == endpoint) {
            u->peers[r].failed = status;
            u->any_failed = true;
        }
}

/* Keeps a request until the transfer is over, which it may be already. */
static void keep(struct lane *u, struct transfer *t, void *request)
{
    t->handle = request;
    if (t->status != COLL_IN_PROGRESS) {
        u->api->ucp_request_free(request);
        return;
    }
    t->next = u->flying;
    u->flying = t;
    u->awaited += t->peer >= 0;
}

static ucs_status_t make_endpoint(struct lane *u, struct peer *p)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
                      | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
                      | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = p->address,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = on_failure, .arg = u},
    };
    log_line(COLL_LOG_DEBUG, "ucx", "rank %d connects to rank %d", u->job->rank,
             (int)(p - u->peers));
    const ucs_status_t status =
        u->api->ucp_ep_create(u->worker, &params, &p->endpoint);
    if (status != UCS_OK)
        p->endpoint = NULL;
    return status;
}

static uint64_t tag_of(const struct lane *u, const struct transfer *t,
                       int sender)
{
    return u->job->job << JOB_SHIFT | (uint64_t)t->channel << CHANNEL_SHIFT
           | (uint64_t)sender << RANK_SHIFT
           | (uint64_t)t->news << FINGERPRINT_BITS | fold(t->tag);
}

static void lane_send(struct transport *t, struct transfer *tx)
{
    struct lane *u = (struct lane *)t;
    struct peer *p = &u->peers[tx->peer];
    ucs_status_t status = UCS_OK;
    if (!u->worker) {
        tx->status = COLL_ERR_ABORTED;
        return;
    }
    assert(p->address);
    u->flushed = false;
    if (p->failed != UCS_OK) {
        tx->status = lost(tx->peer, p);
        return;
    }
    if (!p->endpoint)
        status = make_endpoint(u, p);
    if (status != UCS_OK) {
        tx->status = sent(tx, status);
        return;
    }
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA
                        | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = on_sent,
        .user_data = tx,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t started = u->api->ucp_tag_send_nbx(
        p->endpoint, tx->buf, tx->bytes, tag_of(u, tx, u->job->rank), &param);
    if (started == NULL || UCS_PTR_IS_ERR(started))
        tx->status = sent(tx, UCS_PTR_STATUS(started));
    else
        keep(u, tx, started);
}

/* A peer that failed may have left messages, so receives ask UCX first. Packets
 * are received of any, peer -1. The callback comes in any case, as only it
 * learns tag and length for sure (1.13 leaves recv_info empty). */
static void lane_recv(struct transport *t, struct transfer *rx)
{
    struct lane *u = (struct lane *)t;
    const bool of_any = rx->peer < 0;
    const struct peer *p = of_any ? NULL : &u->peers[rx->peer];
    if (!u->worker) {
        rx->status = COLL_ERR_ABORTED;
        return;
    }
    assert(of_any || p->address);
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA
                        | UCP_OP_ATTR_FIELD_MEMORY_TYPE
                        | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_received,
        .user_data = rx,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };
    ucs_status_ptr_t started = u->api->ucp_tag_recv_nbx(
        u->worker, rx->buf, rx->bytes, tag_of(u, rx, of_any ? 0 : rx->peer),
        of_any ? which_channel : who_sends, &param);
    if (started == NULL || UCS_PTR_IS_ERR(started))
        rx->status = fail(meaning(UCS_PTR_STATUS(started)), "ucx",
                          "cannot receive from rank %d: %s", rx->peer,
                          text(UCS_PTR_STATUS(started)));
    else
        keep(u, rx, started);
    if (rx->status == COLL_IN_PROGRESS && p && p->failed != UCS_OK)
        end_all(u, rx->peer, lost(rx->peer, p));
}

bool ucx_lane_look(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    if (!u->worker)
        return false;
    const bool moved = u->api->ucp_worker_progress(u->worker) > 0;
    if (moved)
        land(u);
    if (u->any_failed)
        tell(u);
    return moved;
}

/* Peers may need this rank's help to connect, so it looks now and then even
 * if nothing is awaited; seldom, because UCX asks the system each time. */
static bool lane_progress(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    if (!u->awaited && !u->flushing && u->turn++ % IDLE_TURNS)
        return false;
    return ucx_lane_look(t);
}

static int lane_awaken(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    int fd = -1;
    if (!u->worker || u->any_failed
        || u->api->ucp_worker_get_efd(u->worker, &fd) != UCS_OK
        || u->api->ucp_worker_arm(u->worker) != UCS_OK)
        return -1;
    return fd;
}

/* Only without a worker is it sure that nothing, such as a network card or
 * a message that has been matched, touches the transfers' memory again. */
static void lane_cancel(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    if (!u->worker)
        return;
    end_all(u, -1, COLL_ERR_ABORTED);
    if (u->flushing)
        u->api->ucp_request_free(u->flushing);
    u->flushing = NULL;
    u->api->ucp_worker_destroy(u->worker);
    u->worker = NULL;
}

static coll_status lane_flush(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    const ucp_request_param_t param = {.op_attr_mask = 0};
    if (!u->worker)
        return COLL_ERR_ABORTED;
    ucs_status_t status = UCS_OK;
    if (!u->flushing && !u->flushed) {
        ucs_status_ptr_t started =
            u->api->ucp_worker_flush_nbx(u->worker, &param);
        if (started != NULL && !UCS_PTR_IS_ERR(started))
            u->flushing = started;
        status = UCS_PTR_STATUS(started);
    }
    lane_progress(t);
    if (u->flushing) {
        status = u->api->ucp_request_check_status(u->flushing);
        if (status == UCS_INPROGRESS)
            return COLL_IN_PROGRESS;
        u->api->ucp_request_free(u->flushing);
        u->flushing = NULL;
    }
    if (status != UCS_OK)
        return fail(meaning(status), "ucx", "cannot flush: %s", text(status));
    u->flushed = true;
    return COLL_OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void close_endpoints(struct lane *u, double deadline)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    for (int r = 0; r < u->job->nranks; r++) {
        struct peer *p = &u->peers[r];
        if (!p->endpoint || p->failed != UCS_OK)
            continue;
        void *closing = u->api->ucp_ep_close_nbx(p->endpoint, &param);
        p->endpoint = NULL;
        if (closing == NULL || UCS_PTR_IS_ERR(closing))
            continue;
        while (u->api->ucp_request_check_status(closing) == UCS_INPROGRESS
               && now() < deadline)
            if (!u->api->ucp_worker_progress(u->worker))
                sched_yield();
        u->api->ucp_request_free(closing);
    }
}

double ucx_lane_part(struct transport *t, double seconds)
{
    struct lane *u = (struct lane *)t;
    const double deadline = now() + seconds;
    if (u->worker && !u->awaited) /* packets are heard no more */
        end_all(u, -1, COLL_ERR_ABORTED);
    if (u->worker && u->flushed && !u->flying)
        close_endpoints(u, deadline);
    return fmax(deadline - now(), 0);
}

static void lane_close(struct transport *t)
{
    struct lane *u = (struct lane *)t;
    if (u->worker)
        lane_cancel(t);
    if (u->context)
        u->api->ucp_cleanup(u->context);
    for (int r = 0; u->peers && r < u->job->nranks; r++)
        free(u->peers[r].address);
    free(u->peers);
    free(u);
}

coll_status ucx_lane_open(struct transport **t, const struct transport_job *job,
                          const struct transport_rail *rail)
{
    const struct ucx_api *api = NULL;
    if (job->nranks > MAX_RANKS)
        return fail(COLL_ERR_UNSUPPORTED, "ucx",
                    "%d ranks are more than the %d that its tags tell apart",
                    job->nranks, MAX_RANKS);
    coll_status status = ucx_load(&api);
    if (status < 0)
        return status;
    struct lane *u = calloc(1, sizeof(*u));
    if (!u)
        return fail(COLL_ERR_MEMORY, "ucx", "no memory for a transport");
    u->base.ops = &lane_ops;
    u->job = job;
    u->api = api;
    u->peers = calloc((size_t)job->nranks, sizeof(*u->peers));
    if (u->peers)
        status = ucx_start(api, job, rail, &u->context, &u->worker);
    else
        status =
            fail(COLL_ERR_MEMORY, "ucx", "no memory for %d ranks", job->nranks);
    if (status < 0) {
        lane_close(&u->base);
        return status;
    }
    *t = &u->base;
    return COLL_OK;
}

static void lane_address(struct transport *t, struct transport_address *address)
{
    struct lane *u = (struct lane *)t;
    ucp_address_t *packed;
    size_t bytes;
    address->bytes = 0;
    const ucs_status_t status =
        u->api->ucp_worker_get_address(u->worker, &packed, &bytes);
    if (status != UCS_OK) {
        log_line(COLL_LOG_WARN, "ucx", "this rank has no address: %s",
                 text(status));
        return;
    }
    if (sizeof(magic) + bytes <= sizeof(address->data)) {
        memcpy(address->data, magic, sizeof(magic));
        memcpy(address->data + sizeof(magic), packed, bytes);
        address->bytes = (uint32_t)(sizeof(magic) + bytes);
    } else {
        log_line(COLL_LOG_WARN, "ucx",
                 "its address takes %zu bytes, %zu are the most; name fewer "
                 "devices in COLL_UCX_NET_DEVICES",
                 bytes, sizeof(address->data) - sizeof(magic));
    }
    u->api->ucp_worker_release_address(u->worker, packed);
}

static coll_status lane_connect(struct transport *t,
                                const struct transport_address *all,
                                bool *reached)
{
    struct lane *u = (struct lane *)t;
    for (int r = 0; r < u->job->nranks; r++) {
        const size_t bytes = all[r].bytes, start = sizeof(magic);
        reached[r] = r != u->job->rank && bytes > start
                     && bytes <= sizeof(all[r].data)
                     && !memcmp(all[r].data, magic, start);
        if (!reached[r])
            continue;
        u->peers[r].address = malloc(bytes - start);
        if (!u->peers[r].address)
            return fail(COLL_ERR_MEMORY, "ucx", "no memory for addresses");
        memcpy(u->peers[r].address, all[r].data + start, bytes - start);
    }
    return COLL_OK;
}

static const struct transport_ops lane_ops = {
    .name = "ucx",
    .address = lane_address,
    .connect = lane_connect,
    .send = lane_send,
    .recv = lane_recv,
    .progress = lane_progress,
    .awaken = lane_awaken,
    .cancel = lane_cancel,
    .flush = lane_flush,
    .close = lane_close,
};
