/* SPDX-License-Identifier: MIT */
/* Gather on a binomial tree.
 *
 *   time   at most ceil(log2 n) alpha + (n - 1)/n beta bytes
 *   when   short vectors: log2 n rounds; but what is far down is sent as often
 *          as it is down
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Five ranks, root 1; each sends its own chunk and those that it heard:
 *
 *   rank 2   1 behind   sends 2     to 1
 *   rank 4   3 behind   sends 4     to 3
 *   rank 3   2 behind   sends 3 4   to 1
 *   rank 0   4 behind   sends 0     to 1
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_gather_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_gather(p, s, NULL, 2);
}
