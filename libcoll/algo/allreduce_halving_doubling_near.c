/* SPDX-License-Identifier: MIT */
/* Allreduce by recursive halving, then doubling; largest exchange near.
 *
 *   time   2 log2 n alpha + (n - 1)/n (2 beta + gamma) bytes, for n a power of
 *          two; else 2 alpha + (2 beta + gamma) bytes more
 *   when   medium to long vectors; ranks that are near in number and
 *          near in the network (numbered group by group)
 *   order  in pairs, for n a power of two, and others (algo.c)
 *   from   Rabenseifner, "Optimization of collective reduction operations",
 *          ICCS 2004; both step orders: Fang et al., "swCaffe", CLUSTER 2018
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_allreduce_halving_doubling_near(struct plan *p,
                                          const struct plan_shape *s)
{
    plan_halving_then_doubling(p, s, false);
}
