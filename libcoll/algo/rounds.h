/* SPDX-License-Identifier: MIT */
/* A plan in rounds: what a rank hears in one it passes on in later ones. The
 * segments of a vector follow one another, a round apart, so that all rounds
 * are at work at once:
 *
 *   tick 0   round 0 of segment 0
 *   tick 1   round 0 of segment 1, round 1 of segment 0
 *
 * In a tick all receives are posted before the sends. Where there are more than
 * the executor's window holds, ranks would wait for one another's sends; then a
 * tick is taken lane by lane, receives and sends of one before the next. All
 * ranks have their lanes in one order, so the first that is not over has all
 * its receives posted somewhere in the windows.
 */
#ifndef ALGO_ROUNDS_H
#define ALGO_ROUNDS_H

#include "plan/plan.h"

struct rounds {
    int nrounds, segments;
    /* Adds the receives of one lane of a round, or its sends, which wait for
     * `ready`. Both ends of a pair of ranks list their messages in one order.
     */
    void (*add)(const void *what, struct plan *, int round, int segment,
                int lane, bool sends, step_id ready);
    int (*nlanes)(const void *what, int round); /* of this rank */
    const void *what;                           /* theirs */
    bool lane_by_lane;                          /* the same on all ranks */
};

/* Appends them. Each tick, or lane, is a round of plan_mirror(). */
void plan_rounds(struct plan *, const struct rounds *);

#endif
