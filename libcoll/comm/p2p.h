/* SPDX-License-Identifier: MIT */
/* Point to point, between transports and requests: who sends what to whom.
 *
 * Ranks send packets to each other (see transport.h): a head, and what belongs
 * to it. Those of two ranks come in the order in which they were sent.
 *
 *   SHORT    a message, whole. Who has no receive for it yet keeps it, up to
 *            P2P_KEPT_BYTES of each peer: the sender counts, as heads say how
 *            much has been taken
 *   LONG     a message that is too long for that, and where it lies. The
 *            receiver reads it there, if it can, and answers DONE
 *   COME     else the receiver answers this, with the transfer of the message
 *            posted, which then goes from memory to memory
 *   DONE     the message has been read
 *   TAKEN    nothing but the head
 *
 * A receive matches the first message that came and fits it, and a message the
 * first receive that was posted and fits. After a failure of the communicator
 * nothing here is of use but p2p_end() and p2p_free().
 */
#ifndef COMM_P2P_H
#define COMM_P2P_H

#include "comm/comm.h"
#include "node/pull.h"

enum {
    P2P_KEPT_BYTES = 256 << 10,
    P2P_MESSAGE_BYTES = 64 /* beside its data */
};

enum p2p_packet { P2P_SHORT, P2P_LONG, P2P_COME, P2P_DONE, P2P_TAKEN };

/* Fixed widths: it travels. */
struct p2p_head {
    uint8_t kind, dtype;
    uint16_t zero;
    int32_t tag;
    uint64_t count;
    uint32_t id;    /* of a long message, its sender's */
    uint32_t taken; /* bytes of short messages from the other; wraps */
};

/* What came before a receive for it. */
struct p2p_message {
    struct p2p_message *next;
    uint64_t order;
    struct p2p_head head;
    struct node_offer offer; /* of a long one */
    unsigned char data[];
};

struct p2p_waiting { /* receives or sends, oldest first */
    coll_request *first, **last;
};

/* A packet for which there was no room. */
struct p2p_out {
    struct p2p_out *next;
    struct p2p_head head;
    struct node_offer offer;
    const void *body;
    size_t bytes;
    coll_request *send; /* over when it is on its way; or NULL */
};

struct p2p_peer {
    struct p2p_waiting receives, sends; /* sends: long ones */
    struct p2p_message *messages, **last_message;
    struct p2p_out *out, **last_out;
    uint32_t sent, freed; /* bytes of short messages, and taken of them */
    uint32_t heard, taken, told; /* the same of the other's; wraps as well */
};

struct p2p {
    struct p2p_peer *peers;    /* [nranks] */
    struct p2p_waiting any;    /* receives of any source */
    struct p2p_waiting flying; /* with a transfer */
    uint64_t order;            /* of receives, and of messages */
    uint32_t id, turn;
    unsigned busy, sending; /* requests not over; of them, sends */
    unsigned nout;          /* packets that wait for room */
    bool leaves;            /* see p2p_leave() */
};

/* From now on this rank hears of messages. Fails with MEMORY. */
coll_status p2p_open(coll_comm *);
void p2p_free(coll_comm *);

/* Starts a filled-in request, and may finish it: see request_start_p2p(). */
coll_status p2p_send(coll_request *);
coll_status p2p_receive(coll_request *);

/* Advances everything; *moved says whether anything was. An error is the
 * communicator's. */
coll_status p2p_advance(coll_comm *, bool *moved);

/* Hears what has come. An error is the communicator's. */
coll_status p2p_listen(coll_comm *);

/* After a failure, and cancel(): all requests have this status. */
void p2p_end(coll_comm *, coll_status);

/* Whether some send or receive waits for that rank. */
bool p2p_awaits(const coll_comm *, int rank);

/* p2p_record.c: puts a request on record, over or not; and that one which is on
 * record is over. */
void p2p_record(coll_request *);
void p2p_record_end(const coll_request *);

/* p2p_tell.c: "; a receive of at most 8 f32 from rank 1 with tag 7 waits", or
 * "".
 */
void p2p_tell_waiting(const coll_comm *, char *text, size_t bytes);

/* This rank calls no more receives: MISMATCH if messages have come that nobody
 * received, or come from now on. */
coll_status p2p_leave(coll_comm *);

/* p2p_match.c: takes the first one that fits off its list, or NULL. */
coll_request *p2p_match_receive(struct p2p *, int peer, int tag);
struct p2p_message *p2p_match_message(struct p2p *, int nranks,
                                      const coll_request *, int *peer);
void p2p_wait_in(struct p2p_waiting *, coll_request *);
/* The send with that id; or NULL. */
coll_request *p2p_take_send(struct p2p_waiting *, uint32_t id);

/* Whether anything is to be sent or received, be it an answer only. */
static inline bool p2p_is_busy(const coll_comm *c)
{
    return c->p2p && (c->p2p->busy || c->p2p->nout);
}

static inline bool comm_has_work(const coll_comm *c)
{
    return c->first || p2p_is_busy(c);
}

/* So many operations, sends and receives are over; wraps. */
static inline uint32_t comm_finished(const coll_comm *c)
{
    return c->finished + c->points;
}

#endif
