/* SPDX-License-Identifier: MIT */
/* What the planners have in common that combine in rank order: every element is
 * combined by one rank, from all ranks' inputs, in one pass as op/op.h has it.
 *
 * So the result is the same whichever rank combines and however the vector is
 * cut. f16, bf16 and f8 are rounded once, and an average is divided before that.
 */
#ifndef ALGO_IN_ORDER_H
#define ALGO_IN_ORDER_H

#include "plan/plan.h"

/* Chunk c of all ranks goes to rank c; `result`, a place of this rank's chunk,
 * gets what they come to. Takes the slots [0, n - 1) and n chunks; n is at
 * least
 * 2. Returns the step that combines. */
step_id plan_combine_slices(struct plan *, const struct plan_shape *,
                            struct place result);

/* Chunk 0 of all ranks goes to all, each of which combines it in PLAN_OUT. */
step_id plan_combine_all(struct plan *, const struct plan_shape *);

#endif
