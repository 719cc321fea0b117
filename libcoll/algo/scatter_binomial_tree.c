/* SPDX-License-Identifier: MIT */
/* Scatter on a binomial tree.
 *
 *   time   at most ceil(log2 n) alpha + (n - 1)/n beta bytes
 *   when   short vectors: log2 n rounds; but what is far down is sent as often
 *          as it is down
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Five ranks, root 1; the farthest first:
 *
 *   rank 1   0 behind   sends 0     to 0, then 3 4 to 3, then 2 to 2
 *   rank 3   2 behind   sends 4     to 4
 */
#include "algo/algo.h"
#include "algo/knomial_parts.h"

void plan_scatter_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_scatter(p, s, NULL, 2);
}
