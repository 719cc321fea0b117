/* SPDX-License-Identifier: MIT */
/* A worker: computes steps, and exchanges with the servers in the way of its
 * strategy. A stretch of steps ends when server 0 has no more. */
#ifndef TRAINER_DIST_WORKER_H
#define TRAINER_DIST_WORKER_H

#include <signal.h>

#include "breakdown.h"
#include "dist/links.h"

/* What a worker can do. `number` is that of a step of the stretch, from 0. */
struct worker_job {
    void *context;
    /* Fills the gradients; an error ends the stretch. */
    coll_status (*gradient)(void *context, long number);
    /* Moves the weights by the gradients. */
    void (*update)(void *context, long number);
    /* Of a strategy whose server moves the weights, instead: makes of the
     * gradients what is added to them, -lr (G + decay W). */
    void (*step)(void *context, long number);
};

struct worker {
    const struct links *links;
    const struct worker_way *way;
    long tau;
    float alpha, rho;
    /* The caller's, links->count floats each. centre: as it was last seen; of a
     * way that wants one. */
    float *weights, *gradients, *centre;
    /* Likewise; of pull_push with rho > 0: the centre that was read last. */
    float *seen;
    coll_request **requests;           /* [2 * nservers] */
    coll_message *messages;            /* [nservers] replies */
    const volatile sig_atomic_t *stop; /* a signal's number, 0 or NULL */
    bool told;                         /* so was a server other than 0 */
    struct breakdown *time;            /* of its rank, or NULL */
    uint64_t exchanges;
};

/* What a worker does of a block of n steps, from number `first` on, with one
 * exchange; *next becomes what the reply says (links.h). */
struct worker_way {
    coll_status (*block)(struct worker *, const struct worker_job *, long first,
                         long n, int *next);
};

/* tau steps a block, or tickets_at_once():
 * elastic: sends the weights and gets the centre while it computes the first
 * step's gradient; equations (1), (6) of elastic.h.
 * elastic_strict: gets the centre first, then computes, then sends the weights.
 * gradient: sends what its steps have moved the weights by, gets weights
 * (Downpour SGD: Dean et al., Large Scale Distributed Deep Networks, NIPS 2012).
 * pull_push: after the last step gets the centre, and sends what it moves to;
 * each gradient gets rho (W - seen) added.
 */
extern const struct worker_way worker_elastic, worker_elastic_strict,
    worker_gradient, worker_pull_push;

/* After links, way, tau, alpha, the vectors and stop are set. Fails with
 * MEMORY.
 */
coll_status worker_open(struct worker *);
void worker_close(struct worker *);

/* A stretch of n steps. */
coll_status worker_run(struct worker *, const struct worker_job *, long n);
/* For now and then while it computes: what is on its way moves on. */
coll_status worker_progress(struct worker *);

#endif
