/* SPDX-License-Identifier: MIT */
/* Broadcast on a binomial tree.
 *
 *   time   ceil(log2 n) (alpha + beta bytes)
 *   when   short vectors: log2 n rounds
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Six ranks; a rank sends to its farthest child first, as that has the most to
 * pass on:
 *
 *          0
 *        / | \
 *       4  2  1
 *       |  |
 *       5  3
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_broadcast_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_broadcast(p, s, 2);
}
