/* SPDX-License-Identifier: MIT */
/* How the ranks of a job share what they learn; one row of strategies.def
 * each. Besides the programs the only reader of coll/coll.h in the trainer. */
#ifndef TRAINER_DIST_STRATEGY_H
#define TRAINER_DIST_STRATEGY_H

#include <signal.h>

#include "coll/coll.h"
#include "breakdown.h"
#include "dist/factors.h"
#include "dist/shard.h"
#include "dist/tickets.h"
#include "dist/wire.h"
#include "net/net.h"

/* How gradients travel: EXCHANGE_AUTO is packed where the library sends no
 * messages, else buckets or priority. */
enum exchange {
    EXCHANGE_AUTO,
    EXCHANGE_PACKED,
    EXCHANGE_LAYERS,
    EXCHANGE_BUCKETS,
    EXCHANGE_PRIORITY,
    EXCHANGES
};
extern const char *const exchange_names[EXCHANGES];

/* Where decentralized-easgd keeps the centre. */
enum centre {
    CENTRE_UNSAID,
    CENTRE_REPLICATED,
    CENTRE_SHARDED,
    CENTRE_HIERARCHICAL
};

/* What the user may tell some strategies; strategy_complete() fills in the
 * rest. */
struct strategy_settings {
    enum exchange exchange;
    size_t bucket_bytes; /* of EXCHANGE_BUCKETS and PRIORITY; 0: chosen, and
                            corrected */
    bool together; /* the optimiser wants all gradients before it moves any
                      weight */
    long tau;      /* an exchange every so many steps; 0: unsaid */
    double alpha;  /* how far weights move towards the centre in an exchange, as
                      a part of their distance; 0: unsaid */
    double rho;    /* at each step workers are pulled towards the centre that
                      they saw last, by a loss of rho / 2 |difference|^2 */
    enum centre centre;
    struct wire_settings wire; /* between hosts */
    long servers; /* the last ranks serve; 0: unsaid, and then one */
    bool strict;  /* compute in turn, too */
    bool deterministic;
    bool shard; /* the optimiser's state, over the ranks */
    enum factor_choice factors;
    const char *needs_gradients; /* the option that needs them in memory */
};
enum {
    USES_EXCHANGE = 1,
    USES_TAU = 2,
    USES_ALPHA = 4,
    USES_CENTRE = 8,
    USES_WIRE = 16,
    USES_SERVERS = 32,
    USES_STRICT = 64,
    USES_SHARD = 128,
    USES_RHO = 256,
    USES_FACTORS = 512
};

/* By what weights move: any optimiser; W -= lr G; the same with momentum. */
enum descent { DESCENT_ANY, DESCENT_PLAIN, DESCENT_MOMENTUM };

struct worker_job; /* dist/worker.h */

struct strategy {
    const struct strategy_ops *ops;
    struct strategy_settings settings;
    coll_comm *comm;
    struct net *net;
    int nworkers;    /* ranks that have a share of the images: the first ones */
    double momentum; /* of DESCENT_MOMENTUM */
    enum part part;  /* what exchanging is in the breakdown: strategy_part() */
    struct breakdown *time; /* of this rank, or NULL: a strategy that does more
                               than exchange says so, as PART_CENTRE */
    int vote;      /* of rank 0: what all are to follow in the next step */
    bool overlaps; /* this step communicates while it goes backward */
    bool listens;  /* wants calls of ops->arrive() */
    bool defers;   /* may leave gradients on their way when it finishes; */
    bool late;     /* the caller's: and does in this step */
    /* The caller's, on all ranks or none: what to do while finish() waits for
     * gradients, once factors are there and no rank reads the weights that have
     * them; false: nothing is left. */
    bool (*meanwhile)(void *context);
    void *context;
    coll_request *sums; /* if late: strategy_reduce_start(), before finish(),
                           which ends it */
    /* If ops->apart, as long as the parameters: the centre as of the last
     * strategy_show(); after that, until strategy_hide(), this rank's weights.
     */
    struct arena centre;
    struct arena state; /* of this rank, which checkpoints keep besides its
                           weights; of sync: of all ranks or none */
    struct shard shard; /* of gradients and parameters: finish() leaves the sum
                           of this rank's part only, see settings.shard */
    size_t bytes;   /* of memory that open() took besides centre and state */
    char note[256]; /* of open(), for the user; "": none. Says what is wrong
                       with the settings if that returns INVALID */
    void *own;
};

/* A step calls begin, grads_ready (several times), finish, prepare and settle,
 * of which all may be NULL but finish. */
struct strategy_ops {
    const char *name; /* "sync" */
    unsigned uses;    /* of the settings: USES_EXCHANGE | ... */
    /* Each rank has weights of its own, and a gradient of its own images only;
     * what is evaluated is a centre of all. open() takes s->centre. */
    bool apart;
    enum descent descent;
    bool any_order;  /* what comes first is done first: no two runs are alike */
    const void *way; /* what open() knows it by */
    coll_status (*open)(struct strategy *);
    /* Before step `number`, from 1: may start to communicate, as the weights
     * stay as they are up to settle(). */
    coll_status (*begin)(struct strategy *, long number);
    /* From net_backward, last layer first: the gradients of this slice of the
     * parameters are final, or its factors. May start to communicate. */
    coll_status (*grads_ready)(struct strategy *, size_t first, size_t count);
    /* After backward: returns once what the step needs of others is there:
     * of sync the gradients, which are then the job's; if late, sums only. */
    coll_status (*finish)(struct strategy *);
    /* Before each layer with parameters of a forward in training, first layer
     * first; or of all at once: returns once this slice of the gradients is the
     * job's. Where a step was not late it is already. */
    coll_status (*arrive)(struct strategy *, size_t first, size_t count);
    /* Directly before the optimiser moves the weights, and directly after. */
    void (*prepare)(struct strategy *);
    void (*settle)(struct strategy *);
    /* After a step, on all ranks: what rank 0 has voted for. */
    coll_status (*follow)(struct strategy *, int vote);
    /* If apart, on all ranks, or NULL: brings the centre to s->centre; takes
     * over what a checkpoint had, which is there. */
    coll_status (*gather)(struct strategy *);
    void (*adopt)(struct strategy *);
    /* If workers run by themselves, else NULL; then steps do not call what they
     * call, but grads_ready. All ranks call it for n steps of workers, numbered
     * from 0. *done: on one rank how many were done, fewer than n where a rank
     * was told to stop; 0 on the others. */
    coll_status (*stretch)(struct strategy *, const struct worker_job *,
                           const volatile sig_atomic_t *stop, long n,
                           long *done);
    /* And on all ranks, for the end: how often a change was made to the centre
     * by one who had not seen the last 0, 1, ..., STALENESS_MOST - 1 or more.
     */
    coll_status (*staleness)(struct strategy *, uint64_t *counts);
    /* What has failed, if it need not have been s->comm; or NULL. */
    const char *(*sentence)(const struct strategy *);
    /* Ends what it has of communicators, by force if s->comm has failed. */
    void (*close)(struct strategy *);
};

extern const struct strategy_ops *const strategies[];
extern const int nstrategies;
/* NULL for an unknown name, with what was found and what is valid in error. */
const struct strategy_ops *strategy_find(const char *name, char *error,
                                         size_t error_bytes);

/* Fills in the settings that are unsaid, but alpha. -1 with one line in error
 * for those that the strategy does not use. strategy_descends() likewise: an
 * optimiser that is not its own, and a momentum, NAN if unsaid. */
int strategy_complete(const struct strategy_ops *, struct strategy_settings *,
                      char *error, size_t error_bytes);
int strategy_descends(const struct strategy_ops *, const char *optimiser,
                      double *momentum, char *error, size_t error_bytes);

/* On all ranks: makes the net's parameters those that are evaluated and stored;
 * strategy_hide() makes them this rank's again. Nothing unless ops->apart. */
coll_status strategy_show(struct strategy *);
void strategy_hide(struct strategy *);

/* The next three are exchanges in the breakdown. */
/* Brings each rank's part of x to all, by shard. */
coll_status strategy_gather(struct strategy *, float *x);
/* Sums (or COLL_MAX ...) a few numbers over the ranks, in place. */
coll_status strategy_reduce(struct strategy *, double *x, size_t count,
                            coll_op op);
/* Begins such a sum, as s->sums. */
coll_status strategy_reduce_start(struct strategy *, double *x, size_t count);
/* Of exchanges among all ranks: PART_INSIDE where the library needs no
 * messages, on one host, else PART_OUTSIDE. */
enum part strategy_part(const struct strategy *);
/* Seconds that the library expects of such a call of f32; 0: it cannot say. */
double strategy_predicted(const struct strategy *, const char *collective,
                          size_t count);
/* Why a call of this communicator, or this rank's own work, failed so. */
const char *strategy_why(const coll_comm *, coll_status);
/* Makes what the net keeps without learning it the mean over the workers. */
coll_status strategy_average_state(struct strategy *);

#endif
