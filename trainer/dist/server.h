/* SPDX-License-Identifier: MIT */
/* A server: holds its shard of the centre and serves the workers, a stretch of
 * steps at a time, after which all ranks meet. */
#ifndef TRAINER_DIST_SERVER_H
#define TRAINER_DIST_SERVER_H

#include <signal.h>

#include "breakdown.h"
#include "dist/links.h"
#include "dist/server_rules.h"
#include "dist/tickets.h"

enum server_order {
    SERVER_FIRST_COME, /* one at a time, as they come */
    SERVER_IN_TURN,    /* one at a time, 0, 1, ... and again */
    SERVER_AT_ONCE     /* a thread for each worker, and no lock */
};

/* What a worker sends, and what it gets. */
struct server_slot {
    float *in, *out;
    coll_request *going;
    coll_message message; /* that has come, or the next one */
    enum link_call call;  /* that was answered last */
    bool left;
    uint64_t bytes; /* of weights and gradients, received and sent */
    double seconds; /* in which its messages changed or read the centre */
};

struct server {
    const struct links *links;
    enum server_order order;
    server_rule *rule;
    struct server_state state; /* its shard, which is the caller's */
    struct server_slot *slots; /* [nworkers] */
    coll_request **coming;     /* [nworkers] */
    float *memory;
    int *queue; /* [nworkers] whose messages have come: a ring, */
    int first, queued;
    int turn;                          /* of the worker that was served last */
    const volatile sig_atomic_t *stop; /* a signal's number, 0 or NULL */
    struct tickets tickets;
    struct breakdown *time; /* of its rank's thread, or NULL */
};

/* After links, order, rule, state and stop are set. Server 0 says who does what
 * and when the stretch ends. Fails with MEMORY. */
coll_status server_open(struct server *, long tau);
size_t server_memory(const struct server *); /* bytes for messages of workers */
void server_close(struct server *);

/* Serves a stretch of n steps: returns once all workers have left for the
 * meeting. *done: how many of the steps are done; of server 0 only. */
coll_status server_run(struct server *, long n, long *done);

/* Of weights and gradients, received and sent. */
uint64_t server_bytes(const struct server *);

/* Parts of server_run(). Listens to a worker; does what its message asks for
 * and, unless that was to leave, listens again; serves all by threads. */
coll_status server_listen(struct server *, int worker);
coll_status server_answer(struct server *, int worker);
coll_status server_run_at_once(struct server *);

#endif
