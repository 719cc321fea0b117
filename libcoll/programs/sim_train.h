/* SPDX-License-Identifier: MIT */
/* coll_sim train: what its two files share. */
#ifndef PROGRAMS_SIM_TRAIN_H
#define PROGRAMS_SIM_TRAIN_H

#include "programs/sim.h"

/* How ranks share what they learn; the names are coll_train's. */
struct sim_strategy {
    const char *name;
    enum coll_kind kinds[2]; /* of an exchange, one after the other */
    int nkinds;
    enum algo_order asked; /* of sums */
    bool gradients; /* in buckets at every step; else weights, all at once, at
                       each tau-th */
    bool overlaps;  /* gradients with the backward pass, weights with a step */
    const char *rules; /* as COLL_ALGO; NULL: none */
};

/* One point: so many ranks with such a period. Seconds. */
struct scaling {
    int nranks, tau;
    struct trial buckets[2];        /* a whole one, by what is chosen */
    double bucket;                  /* both together */
    double nbuckets, communication; /* of one exchange */
    double exposed, step;           /* on average */
};

struct training {
    struct sim_job *job;
    const struct sim_strategy *strategy;
    bool overlaps;
    double compute;
    size_t bytes, bucket;
    int *taus, ntaus;
    struct scaling *rows;
    int nrows;
};

static inline double efficiency(const struct training *t,
                                const struct scaling *s)
{
    return t->compute / s->step;
}

void sim_train_report(const struct training *);

#endif
