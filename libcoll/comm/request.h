/* SPDX-License-Identifier: MIT */
/* One collective, or send or receive, under way. */
#ifndef COMM_REQUEST_H
#define COMM_REQUEST_H

#include <string.h>

#include "comm/comm.h"
#include "comm/uneven.h"

/* What a send or a receive has besides: see p2p.h. */
struct p2p_call {
    enum { NOT_P2P, P2P_SEND, P2P_RECEIVE } way;
    int peer, tag; /* that are wanted */
    coll_message *message;
    size_t bytes; /* of what is sent */
    /* From when it starts: */
    uint64_t record; /* its number; 0: not on record */
    uint64_t order;
    coll_message got; /* what a receive has taken */
    uint32_t id;
    struct transfer transfer;
};

struct coll_request {
    coll_comm *comm;
    enum coll_kind kind;
    int root; /* 0 for a kind that has none */
    coll_dtype dtype;
    coll_op op; /* COLL_SUM for a kind that has none */
    const void *in;
    void *out;
    size_t count; /* as the caller says it; of a v-call all parts together */
    struct uneven *uneven; /* NULL: of no v-call */
    enum algo_way way;
    const struct combine *combine; /* NULL where nothing is reduced */
    const struct red_op *scaled;   /* as in struct reduction, see red_op.h */
    const void *given;             /* what `in` was before red_op_scale() */
    enum algo_order in_order;      /* the same */
    bool flat;
    size_t elem_bytes;
    uint32_t fingerprint; /* of the call */
    /* From when it starts: */
    struct select_choice choice;
    struct prepared *prepared; /* NULL unless this rank runs a plan */
    uint32_t tag;              /* of this call and all before it */
    double began;              /* comm_clock(); by a plan only */
    coll_status status;
    coll_status early; /* an error that it met before it was in the queue */
    bool started;
    bool timed;      /* what it takes is told to all, see news.h */
    bool meeting;    /* it is the library's own, before one that is timed */
    bool active;     /* the caller has yet to learn that it is over */
    bool persistent; /* it then stays, to be started again */
    coll_request *next;
    /* Of a group, see group.h: */
    bool recorded;       /* it has not begun, as its group has not ended */
    bool unstarted;      /* nor could its group start it, then */
    bool owned;          /* by the caller, who waits for it */
    coll_request *parts; /* of a fused one: the first, linked by next */
    struct p2p_call p2p; /* the last, see request_copy() */
};

/* Of one that has not started: without what it has from then on, as that is
 * most of it. */
static inline void request_copy(coll_request *to, const coll_request *from)
{
    memcpy(to, from, offsetof(coll_request, p2p.record));
}

/* An operation has failed, with fail_sentence(): so does the communicator, and
 * all of its operations end. */
void request_fail(coll_comm *, coll_status);
/* The same where no news of another rank can be the cause. */
void request_fail_as(coll_comm *, coll_status, const char *sentence);

/* Into how many equal parts, one a rank, `in` or `out` falls, where it is
 * given; and the vector that a rank holds in full. */
static inline size_t request_in_parts(const coll_request *r)
{
    const bool parts =
        r->kind == REDUCE_SCATTER || r->kind == SCATTER || r->kind == ALLTOALL;
    return parts && !r->uneven ? (size_t)r->comm->nranks : 1;
}

static inline size_t request_out_parts(const coll_request *r)
{
    const bool parts =
        r->kind == ALLGATHER || r->kind == GATHER || r->kind == ALLTOALL;
    return parts && !r->uneven ? (size_t)r->comm->nranks : 1;
}

static inline size_t request_parts(const coll_request *r)
{
    return kind_has_parts(r->kind) && !r->uneven ? (size_t)r->comm->nranks : 1;
}

/* Of that vector: S in the tables of README.md. */
size_t request_bytes(const coll_request *);

/* Whether so many elements are more than an address space holds: without a
 * division for what is short, as no element has so many bytes. */
static inline bool request_is_too_long(size_t count, size_t elem)
{
    enum { MANY_BYTES = 64 };
    return count > SIZE_MAX / 2 / MANY_BYTES && count > SIZE_MAX / 2 / elem;
}

/* A hash of lengths, in order: so far, and with one more. */
static inline uint64_t request_mix(uint64_t h, size_t length)
{
    h = (h ^ length) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* "allgather", "allgather_v". */
static inline const char *request_name(const coll_request *r)
{
    return r->uneven ? uneven_name(r->kind) : kind_names[r->kind];
}

/* A request of a collective. Field by field, as zeroing all of a request would
 * take as long as a line takes to travel. */
static inline coll_request request_ask(enum coll_kind kind, const void *in,
                                       void *out, size_t count,
                                       coll_dtype dtype, coll_op op, int root,
                                       coll_comm *comm)
{
    coll_request r;
    r.comm = comm;
    r.kind = kind;
    r.root = root;
    r.dtype = dtype;
    r.op = op;
    r.in = in;
    r.out = out;
    r.count = count;
    r.uneven = NULL;
    r.started = false;
    r.timed = false;
    r.meeting = false;
    r.active = true;
    r.persistent = false;
    r.early = COLL_OK;
    r.p2p.way = NOT_P2P;
    r.recorded = false;
    r.unstarted = false;
    r.parts = NULL;
    return r;
}

/* What each collective call does, between comm_enter() and comm_leave(), with a
 * request that says what was called, and has no more: checks it, and runs it.
 */
coll_status request_run(coll_request *, coll_request **request);

/* Chooses how a request by a plan runs that starts now, by messages or by
 * hosts. */
coll_status request_choose(coll_request *);
/* Makes its plan ready, if it runs by messages alone. */
coll_status request_prepare(coll_request *, struct exec_call *);

/* collectives.c: whether its call is right, and something can serve it. Between
 * comm_enter() and comm_leave(), if it has a communicator. */
coll_status request_check(const coll_request *);
/* Starts one that was found right, behind those outstanding. */
coll_status request_start(coll_request *);

/* persistent.c: makes a persistent request of a call; of a send or receive, of
 * one that was found right. Between comm_enter() and comm_leave(). */
coll_status request_keep(const coll_request *, coll_request **request);
/* INVALID: there is nowhere to put it. name: "allreduce". */
coll_status request_not_given(const char *name);

/* p2p_calls.c: starts a send or a receive, and finishes it if that takes a
 * moment only. */
void request_start_p2p(coll_request *);
/* The same for a persistent one. Fails if the communicator has failed. */
coll_status request_restart_p2p(coll_request *);
/* What they met has failed: so does the communicator. */
void request_fail_p2p(coll_comm *, coll_status);

/* Starts a filled-in request, and finishes it if that takes a moment only:
 * most short vectors on one host do. false: it goes to request_enqueue(). */
bool request_finish_now(coll_request *);

/* Puts a filled-in request behind those outstanding and starts it if it is
 * the first. Memory stays the caller's until status leaves IN_PROGRESS. */
void request_enqueue(coll_request *);

/* "a collective", "a send". */
const char *request_what(const coll_request *);
/* INVALID: it is of a group that has not ended. call: as for comm_enter(). */
coll_status request_not_begun(const char *call);
/* Returns once the request is over, with its status. */
coll_status request_wait(coll_request *);
coll_status request_step(void *request);

/* Of an active request that is over: makes it inactive, or frees it and sets
 * *request to NULL. Returns its status. */
coll_status request_end(coll_request **request);

/* Advances what is outstanding as far as it goes; ends it with an error if the
 * communicator has failed. */
void comm_serve(coll_comm *);
/* The same for a caller who does not wait: with a look at the messages, and at
 * the deadline of comm_asked(). what: as for comm_wait(). */
void comm_ask(coll_comm *, const char *what);

#endif
