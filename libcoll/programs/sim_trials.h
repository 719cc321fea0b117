/* SPDX-License-Identifier: MIT */
/* What coll_sim simulates: one collective by one algorithm, in one order of the
 * ranks, at one size, on one world. */
#ifndef PROGRAMS_SIM_TRIALS_H
#define PROGRAMS_SIM_TRIALS_H

#include "algo/algo.h"
#include "programs/sim_world.h"

enum trial_state {
    TRIAL_WAITS,
    TRIAL_DONE,
    TRIAL_LARGE,  /* of more messages than are allowed; only planned */
    TRIAL_BEATEN, /* another one is faster in any case; see trials_run() */
    TRIAL_FAILED,
};

struct trial {
    const struct world *world;
    const struct algo *algo;
    enum layout_order order;
    size_t bytes;
    int segments; /* 0: as many as are best, which the run puts here */
    bool chosen;  /* the library would */

    enum trial_state state;
    double under_way; /* messages expected of it while it runs; else 0 */
    double seconds;
    double messages; /* at first expected, then counted */
    uint64_t bytes_sent, crossing[SIM_LEVELS + 1]; /* see price_one() */
    double at_least; /* seconds that it takes in any case; 0: not known */

    /* What it costs the computer that simulates, in seconds of a processor. */
    double plan_seconds;     /* to write one rank's plan, */
    size_t plan_bytes;       /* the largest of some */
    double rehearse_seconds; /* all ranks' plans and the run */
    bool bounded;    /* a number of segments was left out by its bound */
    char error[256]; /* if it failed */
};

struct trials_limits {
    double max_messages; /* of one simulation */
    int threads;
    double instant; /* see struct sim_net; 0: exact */
    bool race; /* leave out what at_least, or a bound, says cannot be the
                  fastest */
};

/* Simulates all, some at a time; says how far it is on a terminal. Stops early
 * at a failure. */
void trials_run(struct trial *, int ntrials, const struct trials_limits *);

/* Positions of its plans, and whether segments count. */
int trial_positions(const struct trial *);
bool trial_pipelines(const struct trial *);

/* About as many messages as a trial sends with so many segments. */
double trial_messages(const struct trial *, int segments);

#endif
