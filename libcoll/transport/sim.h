/* SPDX-License-Identifier: MIT */
/* A simulated network: many ranks, one thread, virtual time.
 *
 * A message of b bytes takes alpha + beta b from the moment that both sides
 * posted it and the sender's and the receiver's port are free; a port carries
 * one message at a time in each direction. A send finishes with its receive
 * (rendezvous), which is the strictest rule a plan can meet. Local reduction
 * takes gamma a byte.
 */
#ifndef TRANSPORT_SIM_H
#define TRANSPORT_SIM_H

#include "transport/transport.h"

struct sim_link {
    double alpha, beta; /* seconds; seconds per byte */
};

struct sim_net {
    struct sim_link link; /* between any two ranks, unless link_of */
    struct sim_link (*link_of)(const void *context, int from, int to);
    const void *context;
    double gamma;         /* seconds per byte reduced */
    unsigned jitter_seed; /* nonzero: stretch each transfer at random */
};

struct sim_traffic {
    uint64_t messages, bytes; /* sent */
    uint64_t reduced_bytes;
};

struct sim *sim_create(int nranks, const struct sim_net *); /* NULL: memory */
void sim_free(struct sim *);

/* The end of one rank; the simulation owns it. */
struct transport *sim_rank(struct sim *, int rank);
struct sim_traffic sim_traffic(const struct sim *, int rank);

/* Calls advance(context, rank) whenever something happened at that rank, until
 * all ranks returned COLL_OK. COLL_ERR_PEER means that they wait on one
 * another. *seconds is when the last rank finished. */
coll_status sim_run(struct sim *,
                    coll_status (*advance)(void *context, int rank),
                    void *context, double *seconds);

#endif
