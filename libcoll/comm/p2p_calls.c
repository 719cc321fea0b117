/* SPDX-License-Identifier: MIT */
/* coll_send() and coll_recv(): check arguments, start, wait.
 *
 * A short message between ranks that have met before, to a receive that has
 * been posted, takes no memory, no lock and no system call.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/group.h"
#include "comm/owner.h"
#include "comm/p2p.h"
#include "comm/request.h"

static const char *name_of(const coll_request *r)
{
    return r->p2p.way == P2P_SEND ? "coll_send" : "coll_recv";
}

static coll_status check_peer(const coll_request *r)
{
    const bool receives = r->p2p.way == P2P_RECEIVE;
    const int peer = r->p2p.peer, tag = r->p2p.tag;
    if ((peer < 0 || peer >= r->comm->nranks)
        && !(receives && peer == COLL_ANY_SOURCE))
        return fail(COLL_ERR_INVALID, "comm", "%s: peer %d is no rank of %d%s",
                    name_of(r), peer, r->comm->nranks,
                    receives ? " nor COLL_ANY_SOURCE" : "");
    if (tag < 0 && !(receives && tag == COLL_ANY_TAG))
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: tag %d is not from 0 to %d%s", name_of(r), tag,
                    INT_MAX, receives ? " nor COLL_ANY_TAG" : "");
    return COLL_OK;
}

/* And says how long an element is. */
static coll_status check(coll_request *r)
{
    const void *vector = r->p2p.way == P2P_SEND ? r->in : r->out;
    const size_t elem = r->elem_bytes = coll_dtype_bytes(r->dtype);
    if (!r->comm)
        return fail(COLL_ERR_INVALID, "comm", "%s: the communicator is NULL",
                    name_of(r));
    if (!elem)
        return fail(COLL_ERR_INVALID, "comm", "%s: %d is no coll_dtype",
                    name_of(r), (int)r->dtype);
    if (request_is_too_long(r->count, elem))
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: %zu elements of %zu bytes are more than an address "
                    "space holds",
                    name_of(r), r->count, elem);
    if (r->count && !vector)
        return fail(COLL_ERR_INVALID, "comm",
                    "%s: the vector is NULL with "
                    "count %zu",
                    name_of(r), r->count);
    return check_peer(r);
}

/* Other ranks' collectives have no part in what a message and its receive do
 * not agree on. */
void request_fail_p2p(coll_comm *c, coll_status status)
{
    if (status == COLL_ERR_MISMATCH)
        request_fail_as(c, status, fail_sentence());
    else
        request_fail(c, status);
}

/* A short message is on record once it is on its way, which takes nobody's time
 * and, where it is over by then, one look at the clock. */
void request_start_p2p(coll_request *r)
{
    enum { SHORT_BYTES = 8192 };
    coll_comm *c = r->comm;
    const bool is_short = r->p2p.bytes <= SHORT_BYTES;
    r->status = COLL_IN_PROGRESS;
    r->p2p.record = 0;
    if (!is_short)
        p2p_record(r);
    coll_status status = p2p_open(c);
    if (status == COLL_OK)
        status = r->p2p.way == P2P_SEND ? p2p_send(r) : p2p_receive(r);
    if (is_short)
        p2p_record(r);
    if (status == COLL_OK)
        return;
    request_fail_p2p(c, status);
    if (r->status == COLL_IN_PROGRESS) {
        r->status = comm_check(c);
        p2p_record_end(r);
    }
}

/* Waits without what a long wait takes. */
static void look(const coll_request *r)
{
    enum { LOOKS = 256 };
    const int most = r->comm->spins ? LOOKS : 1;
    for (int i = 0; i < most && r->status == COLL_IN_PROGRESS; i++)
        comm_progress(r->comm);
}

static coll_status check_comm(coll_comm *c)
{
    return comm_check(c) < 0 ? fail(comm_check(c), "comm", "%s", c->sentence)
                             : COLL_OK;
}

coll_status request_restart_p2p(coll_request *r)
{
    const coll_status status = check_comm(r->comm);
    if (status < 0)
        return status;
    r->active = true;
    request_start_p2p(r);
    return COLL_OK;
}

/* Nobody is waited for, so it starts at once. */
static coll_status run_in_group(struct group *g, const coll_request *here,
                                coll_request **request)
{
    coll_request *r = group_place(g, request != NULL);
    if (!r)
        return COLL_ERR_MEMORY;
    request_copy(r, here);
    request_start_p2p(r);
    if (request || r->status == COLL_IN_PROGRESS) {
        group_keep(g, r, request);
        return COLL_OK;
    }
    const coll_status status = r->status;
    group_drop(g, r);
    return status < 0 ? fail(status, "comm", "%s", here->comm->sentence)
                      : COLL_OK;
}

static coll_status run_inside(coll_request *here, coll_request **request)
{
    coll_comm *c = here->comm;
    coll_request *r = here;
    coll_status status = check(here);
    if (status == COLL_OK)
        status = check_comm(c);
    if (status < 0)
        return status;
    here->p2p.bytes = here->count * here->elem_bytes;
    if (here->persistent)
        return request_keep(here, request);
    struct group *const group = group_open();
    if (group)
        return run_in_group(group, here, request);
    if (request) {
        r = malloc(sizeof(*r));
        if (!r)
            return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
        request_copy(r, here);
    }
    request_start_p2p(r);
    if (request) {
        *request = r;
        return COLL_OK;
    }
    look(r);
    if (r->status == COLL_OK)
        return COLL_OK;
    request_wait(r);
    return r->status < 0 ? fail(r->status, "comm", "%s", c->sentence)
                         : r->status;
}

static coll_status enter(coll_request *here, coll_request **request)
{
    coll_comm *c = here->comm;
    coll_status status =
        c ? comm_enter(c, name_of(here) + strlen("coll_")) : check(here);
    if (status == COLL_OK) {
        status = run_inside(here, request);
        comm_leave(c);
    }
    return status;
}

static coll_status run(coll_request *here, coll_request **request)
{
    const coll_status status = enter(here, request);
    return status < 0 ? group_noted(status) : status;
}

static coll_status keep(coll_request *here, coll_request **request)
{
    here->persistent = true;
    return request ? enter(here, request)
                   : request_not_given(name_of(here) + strlen("coll_"));
}

/* Field by field, see request_ask(). */
static inline coll_request ask(int way, size_t count, coll_dtype dtype,
                               int peer, int tag, coll_comm *comm)
{
    coll_request r;
    r.comm = comm;
    r.count = count;
    r.dtype = dtype;
    r.uneven = NULL;
    r.active = true;
    r.persistent = false;
    r.recorded = false;
    r.unstarted = false;
    r.parts = NULL;
    r.p2p.way = way;
    r.p2p.peer = peer;
    r.p2p.tag = tag;
    return r;
}

coll_status coll_send(const void *send, size_t count, coll_dtype dtype,
                      int peer, int tag, coll_comm *comm,
                      coll_request **request)
{
    coll_request r = ask(P2P_SEND, count, dtype, peer, tag, comm);
    r.in = send;
    return run(&r, request);
}

coll_status coll_recv(void *recv, size_t count, coll_dtype dtype, int peer,
                      int tag, coll_comm *comm, coll_message *message,
                      coll_request **request)
{
    coll_request r = ask(P2P_RECEIVE, count, dtype, peer, tag, comm);
    r.out = recv;
    r.p2p.message = message;
    return run(&r, request);
}

coll_status coll_send_init(const void *send, size_t count, coll_dtype dtype,
                           int peer, int tag, coll_comm *comm,
                           coll_request **request)
{
    coll_request r = ask(P2P_SEND, count, dtype, peer, tag, comm);
    r.in = send;
    return keep(&r, request);
}

coll_status coll_recv_init(void *recv, size_t count, coll_dtype dtype, int peer,
                           int tag, coll_comm *comm, coll_message *message,
                           coll_request **request)
{
    coll_request r = ask(P2P_RECEIVE, count, dtype, peer, tag, comm);
    r.out = recv;
    r.p2p.message = message;
    return keep(&r, request);
}
