/* SPDX-License-Identifier: MIT */
/* A transport moves messages between ranks. One row of transports.def each.
 *
 * Everything is non-blocking and single-threaded: a communicator calls its
 * transports from one thread at a time. Messages between two ranks on one
 * channel match in posting order. A transfer is memory of the caller (the
 * executor), which the transport may link and mark until its status leaves
 * COLL_IN_PROGRESS.
 *
 * Beside transfers there are packets, for point to point: short, copied when
 * they are sent, and heard of without a receive that was posted for them.
 */
#ifndef TRANSPORT_TRANSPORT_H
#define TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/types.h"

/* What is independent of what: collectives; long messages of point to point;
 * and packets, which callers do not name. */
enum transport_channel {
    CHANNEL_COLLECTIVE,
    CHANNEL_DATA,
    CHANNEL_PACKET,
};

/* One message on its way. The caller fills in the first four and sets status
 * to COLL_IN_PROGRESS; the rest belongs to the transport until it sets status
 * to COLL_OK or an error (it has then called fail() with the sentence). */
struct transfer {
    void *buf;     /* read by send, written by recv; bytes long */
    size_t bytes;  /* equal on both sides, never 0 */
    int peer;      /* never this rank */
    uint32_t tag;  /* operation fingerprint: both sides must agree, else the
                      receiver gets COLL_ERR_MISMATCH; also if bytes differ.
                      Its tag is then what was sent, in the bits that travel, */
    uint16_t news; /* 10 bits that go with the message: of send read when it is
                      posted, of recv written before it is over */
    uint8_t channel; /* a transport_channel; DATA only where packets are */
    coll_status status;
    struct transfer *next;
    size_t moved; /* and this how many bytes were sent; 0: not known */
    void *handle;
    double posted; /* virtual time, the simulator's */
};

enum { TRANSPORT_ADDRESS_MAX = 2048 };

struct transport_address {
    uint32_t bytes; /* 0: this rank does not offer this transport */
    unsigned char data[TRANSPORT_ADDRESS_MAX];
};

enum { TRANSPORT_RAILS_MAX = 4, TRANSPORT_LANES_MAX = 8 };

/* A network that joins all hosts. Its place among the rails, rate, round
 * trip and share are equal on all ranks. */
struct transport_rail {
    char interface[32];      /* by which this host is on it */
    double bytes_per_second; /* of its slowest link seen; 0: unknown */
    double round_trip;       /* from where ranks meet to the farthest of them;
                                0: unknown */
    int share;               /* of long messages: of the sum of all shares */
};

/* Whether what the user has set, or the hardware, leaves no choice among this
 * host's interfaces: the one by which the ranks met is then the only rail. */
bool transport_one_rail(void);

/* What a transport may know about the job. Lives longer than the transport. */
struct transport_job {
    int rank, nranks;
    const uint64_t *host_of; /* per rank: equal for ranks that share a kernel,
                                its namespaces and so its memory */
    const struct transport_rail *rails; /* the first one for short messages */
    int nrails;                         /* 0: unknown */
    int lanes;     /* connections to a rank on each rail; 0 is 1 */
    uint64_t job;   /* random, equal on all ranks, never 0 */
    struct node *node; /* who of this host may sleep, or NULL */
    struct sim *sim;   /* for the row sim only, else NULL */
};

struct transport;

/* Told of a packet of a rank. The memory is the transport's, and a peer may
 * still write into it. An error goes to who called hear(). */
typedef coll_status transport_heard(void *context, int peer, const void *packet,
                                    size_t bytes);

/* `progress` is the only call that may take long, and it never blocks. */
struct transport_ops {
    const char *name;
    bool simulated; /* serves tests and predictions, never a real job */

    /* Makes this rank's end. No communication with other ranks. Fails with
     * UNSUPPORTED if this machine cannot (the job then goes on without). */
    coll_status (*open)(struct transport **, const struct transport_job *);

    /* The bytes that the other ranks need to reach this one. */
    void (*address)(struct transport *, struct transport_address *);

    /* Called once with all ranks' addresses, in rank order. Sets reached[r]
     * for each rank that this one can exchange messages with. The caller
     * uses a pair only if both sides reached each other. An unreachable peer
     * is no error. Data that a peer wrote is checked, never trusted. */
    coll_status (*connect)(struct transport *,
                           const struct transport_address *all, bool *reached);

    /* Start a message. May complete it at once. Only for reached peers. */
    void (*send)(struct transport *, struct transfer *);
    void (*recv)(struct transport *, struct transfer *);

    /* Moves what can be moved; returns whether anything did. */
    bool (*progress)(struct transport *);

    /* Optional, all three: packets. At most packet_bytes() long; it is equal on
     * all ranks. post() sends one made of a head and a body, both copied: OK;
     * IN_PROGRESS: there is no room, to be called again after progress(); or an
     * error. hear() passes on what has come, of each peer in order: OK;
     * IN_PROGRESS: nothing has; or an error, of `heard` or found here. heard
     * may call send, recv and post. Who posts waits for peers to hear, at last.
     */
    size_t (*packet_bytes)(const struct transport *);
    coll_status (*post)(struct transport *, int peer, const void *head,
                        size_t head_bytes, const void *body, size_t body_bytes);
    coll_status (*hear)(struct transport *, transport_heard *heard,
                        void *context);

    /* Ends all transfers with COLL_ERR_ABORTED. After it returns no byte of a
     * transfer's memory is read or written, whatever peers do. */
    void (*cancel)(struct transport *);

    /* Optional: a descriptor that turns readable once progress() has something
     * to move, until the next call of either; -1: there is something now, or
     * this end cannot tell. */
    int (*awaken)(struct transport *);

    /* Optional, before an orderly close: COLL_OK once everything sent has left
     * this rank; else COLL_IN_PROGRESS, to be called again. */
    coll_status (*flush)(struct transport *);

    /* Optional: told of local work, so that a simulator can charge for it. */
    void (*work)(struct transport *, size_t bytes, bool reduces);

    /* Frees everything. Peers may be gone or dead already. */
    void (*close)(struct transport *);
};

struct transport {
    const struct transport_ops *ops;
};

/* All rows of transports.def, best first. */
extern const struct transport_ops *const transports[];
extern const int ntransports;

const struct transport_ops *transport_find(const char *name); /* or NULL */

#endif
