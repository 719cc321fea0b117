/* SPDX-License-Identifier: MIT */
/* Allreduce in two rounds: every rank sums one chunk for all.
 *
 *   time   2 alpha + (n - 1)/n (2 beta + gamma) bytes
 *   when   medium vectors on few ranks, where the network lets all pairs
 *          talk at once: a ring's traffic in two rounds
 *   order  chunk c is summed at rank c, from it downward, then upward
 *   from   Hoefler and Moor, JSFI 1(2), 2014, see allreduce_direct.c. It is
 *          dividing and multiplying (allreduce_dividing_multiplying.c) in one
 *          round each
 *
 * Rank 1 of 4:
 *
 *   round 0   sends chunk 2 to 2, 3 to 3, 0 to 0; hears its chunk 1 from all
 *   round 1   sends the sum of chunk 1 to all; hears theirs
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_allreduce_direct_scatter(struct plan *p, const struct plan_shape *s)
{
    plan_dividing(p, s, s->nranks);
}
