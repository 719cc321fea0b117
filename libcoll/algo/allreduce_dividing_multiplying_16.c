/* SPDX-License-Identifier: MIT */
/* Allreduce by dividing, then multiplying, in groups of up to 16.
 *
 *   time   as in allreduce_dividing_multiplying.c: 1024 ranks take six rounds
 *          instead of ten
 *   when   medium vectors on many ranks, where a round costs more than 16
 *          messages
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_allreduce_dividing_multiplying_16(struct plan *p,
                                            const struct plan_shape *s)
{
    plan_dividing(p, s, 16);
}
