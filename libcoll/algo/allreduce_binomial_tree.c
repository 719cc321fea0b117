/* SPDX-License-Identifier: MIT */
/* Allreduce on a binomial tree: reduce up to rank 0, then broadcast down.
 *
 *   time   2 ceil(log2 n) (alpha + beta bytes) + ceil(log2 n) gamma bytes
 *   when   short vectors; only 2 (n - 1) messages in the whole job
 *   order  a rank adds its children in the order of their distance
 *   from   Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005
 */
#include "algo/algo.h"
#include "algo/knomial.h"

void plan_allreduce_binomial_tree(struct plan *p, const struct plan_shape *s)
{
    plan_knomial_allreduce(p, s, 2);
}
