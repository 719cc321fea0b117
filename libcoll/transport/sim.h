/* SPDX-License-Identifier: MIT */
/* A simulated network: many ranks, one thread, virtual time.
 *
 * A message of b bytes begins when both sides have posted it (rendezvous, the
 * strictest rule that a plan can meet), moves at the rate that its ports and
 * links leave it (flows.h), and arrives alpha after its last byte has left:
 * alone after alpha + beta b. Messages from one rank to another move one after
 * another, as they do on a connection, so that segments pipeline. Local
 * reduction takes gamma a byte, each end of a message `overhead` of its rank's
 * time (LogGP's o; Alexandrov et al., 1995).
 *
 * Ranks sit in groups inside groups. The outermost level at which two ranks are
 * in different groups says what their messages cost. Ports, one for each
 * direction, belong to hosts; a message takes beta seconds of a port for each
 * byte. Messages inside a host use ports of the ranks. Where a group has one
 * link to the outside for all (`shared`), what leaves or enters it shares that.
 *
 * Where machines have more ranks than processors, ranks take turns: whoever has
 * a message to handle or vectors to add first waits for a processor to be free.
 * A rank that has done what it could looks in vain for `turn` seconds, then
 * leaves its processor. Several hosts may be one machine, as containers and
 * namespaces are; moving a message's bytes then takes some of what the machine
 * can move in all.
 */
#ifndef TRANSPORT_SIM_H
#define TRANSPORT_SIM_H

#include "transport/flows.h"
#include "transport/transport.h"

enum { SIM_LEVELS = 8 }; /* as many as a description has */

struct sim_link {
    double alpha, beta; /* seconds; seconds per byte */
    double overhead;    /* seconds of a rank's time at each end */
};

struct sim_level {
    const int *group_of; /* per rank, from 0 */
    int ngroups;
    struct sim_link link; /* between groups of this level in one of the next */
    double shared; /* seconds per byte of a group's link; 0: not shared */
};

struct sim_net {
    struct sim_link link; /* between ranks of one innermost group */
    int nlevels;          /* outermost first */
    int nhost_levels;     /* so many of them are outside of hosts */
    struct sim_level level[SIM_LEVELS];
    double gamma, copy;         /* seconds per byte reduced, copied */
    const int *machine_of;      /* per rank, from 0; NULL: processors for all */
    int nmachines, nprocessors; /* so many on each machine */
    double machine; /* seconds per byte of all that a machine moves, with all
                       its processors; 0: any */
    double turn;    /* until a rank with nothing to do leaves its processor */
    double
        instant; /* what is nearer than this to now, relatively, is taken
                    to happen now when rates are found; 0: but for rounding */
    unsigned jitter_seed; /* nonzero: delay each arrival at random */
};

struct sim_traffic {
    uint64_t messages, bytes;          /* sent */
    uint64_t crossing[SIM_LEVELS + 1]; /* of these bytes, by level where the
                                          paths part; last: inside all */
    uint64_t reduced_bytes;
};

/* The level whose link two ranks use; nlevels: net->link. */
int sim_level_of(const struct sim_net *, int a, int b);

const struct sim_link *sim_link_of(const struct sim_net *, int a, int b);

/* NULL: memory. What net points to stays the caller's and outlives it. */
struct sim *sim_create(int nranks, const struct sim_net *net);
void sim_free(struct sim *);

/* The end of one rank; the simulation owns it. */
struct transport *sim_rank(struct sim *, int rank);
struct sim_traffic sim_traffic(const struct sim *, int rank);

/* What a message uses of the resources, numbered from 0 to sim_resources() - 1:
 * a port at each end, the links shared by the groups that it leaves and enters,
 * what machines move. Returns how many. */
int sim_uses(const struct sim *, int from, int to,
             struct flow_use uses[FLOW_USES]);
int sim_resources(const struct sim *);

/* Calls advance(context, rank, NULL) once for each rank, then with each of its
 * transfers that is over, until all ranks returned COLL_OK. COLL_ERR_PEER means
 * that they wait on one another. *seconds is when the last rank finished. */
typedef coll_status sim_advance_fn(void *context, int rank,
                                   const struct transfer *over);
coll_status sim_run(struct sim *, sim_advance_fn *advance, void *context,
                    double *seconds);

#endif
