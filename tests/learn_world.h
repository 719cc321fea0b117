/* SPDX-License-Identifier: MIT */
/* Operations that are simulated for comm/learn.c: each candidate has a true
 * time, and a sample is that with noise. */
#ifndef TESTS_LEARN_WORLD_H
#define TESTS_LEARN_WORLD_H

#include "comm/learn.h"

enum { SEEDS = 100, DELAYS = 3 };

struct world {
    struct learn learn;
    uint64_t state; /* of the noise */
    int n;
    double seconds[LEARN_CANDIDATES], predicted[LEARN_CANDIDATES];
    double noise;  /* 0.05: +-5 %, or that standard deviation if gaussian */
    double spikes; /* how many samples are 50 times as long */
    bool gaussian;
    double backlog; /* share of what its predecessor took more that delays an
                       operation, as bytes do that wait before a slow link */
    int before;     /* that predecessor */
    int greedy;     /* the candidate that lives on what others save, of which
                       each saves half of what it spends: without, it takes
                       twice as long; 0: nobody */
    double saved;
    /* A time is known when `delay` more operations have begun. */
    int delay, waiting, candidate[DELAYS];
    double sample[DELAYS];
    double excess; /* what trials took beyond the best, in seconds */
};

/* Uniform in [0, 1). */
double draw(uint64_t *state);

/* n candidates that take no time yet; odd seeds have gaussian noise. */
struct world world(int n, int seed);
void start(struct world *);

/* As it would travel. */
int32_t log_time(double seconds);
/* Of one more operation of a candidate. */
double sample(struct world *, int candidate);
/* One operation; returns who ran it. */
int operate(struct world *);
/* Operations until a candidate is held for best, or is not; limit at most. */
int until_best(struct world *, bool is, int candidate, int limit);

/* Sorts, and says how they are spread. */
void show(const char *what, int *x, int n);

#endif
