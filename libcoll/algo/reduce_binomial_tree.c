/* SPDX-License-Identifier: MIT */
/* Reduce on a binomial tree.
 *
 *   time   ceil(log2 n) (alpha + (beta + gamma) bytes)
 *   when   short vectors: log2 n rounds
 *   order  a rank adds its children in the order of their distance
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 *
 * Six ranks; a rank sends to its parent once it has heard all its children:
 *
 *          0
 *        / | \
 *       4  2  1
 *       |  |
 *       5  3
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_reduce_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_reduce(p, s, 2);
}
