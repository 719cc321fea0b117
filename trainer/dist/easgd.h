/* SPDX-License-Identifier: MIT */
/* What the strategies have in common in which all ranks exchange their weights
 * in the same step, every tau-th, and move towards a centre (elastic.h). Each
 * keeps the centre in a way of its own. */
#ifndef TRAINER_DIST_EASGD_H
#define TRAINER_DIST_EASGD_H

#include "dist/strategy.h"

struct easgd;

struct easgd_way {
    bool early; /* starts before forward, and is waited for after backward */
    bool alike; /* no rank of 2^k is to send or hear more than others */
    const char *algorithm; /* as in coll_config; NULL: any, with equal bits */
    /* Optional: takes e->sum, of as many floats as there are parameters unless
     * this says otherwise, and what else it needs. */
    coll_status (*open)(struct strategy *, struct easgd *);
    /* Starts or does what a step communicates; requests go to e->requests. */
    coll_status (*exchange)(struct strategy *, struct easgd *);
    /* Of count parameters from number first on: the centre moves, and
     * e->distance gets how far this rank's weights were from it. */
    void (*move)(const struct strategy *, struct easgd *, size_t first,
                 size_t count);
    void (*close)(struct easgd *); /* optional: what open() took */
};

struct easgd {
    const struct easgd_way *way;
    coll_comm *comm; /* the job's ranks, with the way's sums */
    int workers, rank;
    float alpha;
    struct arena sum; /* of the weights */
    float *distance;
    coll_request *requests[2];
    coll_status status; /* the first failure of this step */
    bool exchanges;     /* this step does */
    void *handles[3];
    void *own; /* the way's */
};

/* Hooks of struct strategy_ops. */
coll_status easgd_open(struct strategy *, const struct easgd_way *);
coll_status easgd_begin(struct strategy *, long number);
coll_status easgd_grads_ready(struct strategy *, size_t first, size_t count);
coll_status easgd_finish(struct strategy *);
void easgd_prepare(struct strategy *);
void easgd_settle(struct strategy *);
void easgd_close(struct strategy *);

/* Where every rank has the centre: one sum over the ranks, after which each
 * moves it alike. */
coll_status easgd_sum(struct strategy *, struct easgd *);
void easgd_meet(const struct strategy *, struct easgd *, size_t first,
                size_t count);

#endif
