/* SPDX-License-Identifier: MIT */
/* A k-nomial tree with its root at rank 0.
 *
 * Written to the base k, a rank's parent is the rank with its lowest digit that
 * is not 0 replaced by 0. Radix 2 is the binomial tree; with a radix of n or
 * more every rank is a child of rank 0. Nine ranks, radix 3:
 *
 *            0
 *        / /   \ \
 *       3 6     1 2
 *      /| |\
 *     4 5 7 8
 *
 * MPICH and UCC have it by this name, for reduce and broadcast.
 */
#ifndef ALGO_KNOMIAL_H
#define ALGO_KNOMIAL_H

#include "plan/plan.h"

/* Up the tree a rank adds its children in the order of their distance. Down it
 * sends to those that have most to pass on first, to all of one distance at
 * once. Each fills an empty plan; the radix is 2 to 8. */
void plan_knomial_allreduce(struct plan *, const struct plan_shape *,
                            int radix);
void plan_knomial_reduce(struct plan *, const struct plan_shape *, int radix);
void plan_knomial_broadcast(struct plan *, const struct plan_shape *,
                            int radix);
void plan_knomial_barrier(struct plan *, const struct plan_shape *, int radix);

#endif
