/* SPDX-License-Identifier: MIT */
/* Allreduce by recursive multiplying in groups of up to 8.
 *
 *   time   as in allreduce_recursive_multiplying.c: 64 ranks take two rounds of
 *          7 vectors instead of three of 3
 *   when   the shortest vectors, where a round costs more than 8 messages
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_allreduce_recursive_multiplying_8(struct plan *p,
                                            const struct plan_shape *s)
{
    plan_multiplying(p, s, 8);
}
