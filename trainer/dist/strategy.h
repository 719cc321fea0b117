/* SPDX-License-Identifier: MIT */
/* How the ranks of a job share what they learn; one row of strategies.def
 * each. Besides the programs the only reader of coll/coll.h in the trainer. */
#ifndef TRAINER_DIST_STRATEGY_H
#define TRAINER_DIST_STRATEGY_H

#include "coll/coll.h"
#include "net/net.h"

/* How gradients travel: EXCHANGE_AUTO is packed where the library sends
 * no messages, else buckets. */
enum exchange {
    EXCHANGE_AUTO,
    EXCHANGE_PACKED,
    EXCHANGE_LAYERS,
    EXCHANGE_BUCKETS
};

struct strategy {
    const struct strategy_ops *ops;
    enum exchange exchange;
    size_t bucket_bytes; /* of EXCHANGE_BUCKETS; 0: chosen, and corrected */
    coll_comm *comm;
    struct net *net;
    double seconds; /* spent in communication so far */
    int vote;       /* of rank 0: what all are to follow in the next step */
    bool overlaps;  /* this step communicates while it goes backward */
    void *own;
};

struct strategy_ops {
    const char *name; /* "sync" */
    coll_status (*open)(struct strategy *);
    /* From net_backward, last layer first: this slice of the gradient arena is
     * final. May start to communicate; adds its time to seconds. */
    coll_status (*grads_ready)(struct strategy *, size_t first, size_t count);
    /* After backward: returns once the gradients are the job's. */
    coll_status (*finish)(struct strategy *);
    /* After a step, on all ranks: what rank 0 has voted for. */
    void (*follow)(struct strategy *, int vote);
    void (*close)(struct strategy *);
};

extern const struct strategy_ops *const strategies[];
extern const int nstrategies;
/* NULL for an unknown name, with what was found and what is valid in error. */
const struct strategy_ops *strategy_find(const char *name, char *error,
                                         size_t error_bytes);

/* ops->finish(), with its time added to seconds. */
coll_status strategy_finish(struct strategy *);
/* Sums (or COLL_MAX ...) a few numbers over the ranks, in place; timed too. */
coll_status strategy_reduce(struct strategy *, double *x, size_t count,
                            coll_op op);
/* Makes what the net keeps without learning it the mean over the ranks. */
coll_status strategy_average_state(struct strategy *);

#endif
