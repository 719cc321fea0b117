/* SPDX-License-Identifier: MIT */
/* Who serves and who works, and how they reach each other.
 *
 *     rank   0 .. nworkers-1    nworkers .. nranks-1
 *            worker 0, 1, ...   server 0, 1, ...: each holds a shard of the
 *                               centre, so many floats one after another
 *
 * The tag says what a message is. Of a worker: */
#ifndef TRAINER_DIST_LINKS_H
#define TRAINER_DIST_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

enum link_call {
    LINK_EXCHANGE, /* a shard; the server does its rule and replies */
    LINK_PULL,     /* empty; it replies the centre */
    LINK_PUSH,     /* a shard; it does its rule */
    LINK_LEAVE,    /* empty; this worker comes to the meeting */
};
/* Added to that by a worker that is to stop: */
enum { LINK_STOP = 4 };

/* A reply is a shard. Its tag is, of server 0, the number, from 1, of the next
 * step of this stretch of steps that the worker may do, or 0; of others,
 * whether that server was told to stop. */

struct links {
    coll_comm *comm;
    int nworkers, nservers;
    int rank;     /* this one's */
    size_t count; /* floats in all shards */
    /* Communicators of a worker and a server, by the other's number: threads
     * may use them at once. NULL: all go over comm. */
    coll_comm **pairs;
};

struct link {
    coll_comm *comm;
    int peer;
};

/* All ranks of comm, the last nservers of which serve, from 1 to all but one.
 * Fails as coll_comm_split(), and then there is nothing to close. comm stays
 * the caller's. */
coll_status links_open(struct links *, coll_comm *comm, int nservers,
                       size_t count, bool pairs);
/* Before comm is destroyed or after. Waits for the other side of each pair. */
void links_close(struct links *);

/* This rank's number as a server, or -1. */
int links_server(const struct links *);
struct link links_to_server(const struct links *, int server);
struct link links_to_worker(const struct links *, int worker);
/* Floats of a server's shard, and where it begins. */
size_t links_shard(const struct links *, int server, size_t *first);

/* After a failure in a stretch, on all ranks as it spreads: no pair waits, and
 * the communicator of all is asked what happened, as ranks have other numbers
 * in pairs. links_abort() is the first half, for any thread. */
void links_failed(const struct links *);
void links_abort(const struct links *);
/* The library's sentence about what failed, or "". */
const char *links_error(const struct links *);

#endif
