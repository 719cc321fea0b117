/* SPDX-License-Identifier: MIT */
/* Gather and scatter on k-nomial trees, see knomial.h; a rank's place in one is
 * how far behind the root it is. Below a rank are those that follow it, so what
 * a subtree has is one run of chunks, which is one message; but where it goes
 * on at chunk 0 after the last it is two.
 *
 * With levels there is such a tree in each group, of the groups inside it, and
 * for each of these stands one rank: the root for its own, else the first. Two
 * groups of three, root 4, radix 2:
 *
 *   inside    1 and 2 send to 0; 3 and 5 to 4
 *   outside   0 sends 0 1 2 to 4
 */
#ifndef ALGO_KNOMIAL_PARTS_H
#define ALGO_KNOMIAL_PARTS_H

#include "plan/plan.h"

/* Each fills an empty plan; the radix is 2 or more: with as many as there are
 * ranks, all send to the root of their tree at once. levels: those of the
 * shape, or NULL. */
void plan_knomial_gather(struct plan *, const struct plan_shape *,
                         const struct plan_tree *levels, int radix);
void plan_knomial_scatter(struct plan *, const struct plan_shape *,
                          const struct plan_tree *levels, int radix);

#endif
