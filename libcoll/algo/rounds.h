/* SPDX-License-Identifier: MIT */
/* A plan in rounds: what a rank hears in one it passes on in later ones. The
 * segments of a vector follow one another, a round apart, so that all rounds
 * are at work at once:
 *
 *   tick 0   round 0 of segment 0
 *   tick 1   round 0 of segment 1, round 1 of segment 0
 */
#ifndef ALGO_ROUNDS_H
#define ALGO_ROUNDS_H

#include "plan/plan.h"

struct rounds {
    int nrounds, segments;
    /* Adds the receives of a round, or its sends, which wait for `ready`. Both
     * ends of a pair of ranks list their messages in one order. */
    void (*add)(const void *what, struct plan *, int round, int segment,
                bool sends, step_id ready);
    const void *what; /* add()'s */
};

/* Appends them. Each tick is a round of plan_mirror(). */
void plan_rounds(struct plan *, const struct rounds *);

#endif
