/* SPDX-License-Identifier: MIT */
/* Gather and scatter on a k-nomial tree, see knomial.h; a rank's place in it is
 * how far behind the root it is. Below a rank are those that follow it, so what
 * a subtree has is one run of chunks, which is one message; but where it goes
 * on at chunk 0 after the last it is two. */
#ifndef ALGO_KNOMIAL_PARTS_H
#define ALGO_KNOMIAL_PARTS_H

#include "plan/plan.h"

/* Each fills an empty plan; the radix is 2 to 8. */
void plan_knomial_gather(struct plan *, const struct plan_shape *, int radix);
void plan_knomial_scatter(struct plan *, const struct plan_shape *, int radix);

#endif
