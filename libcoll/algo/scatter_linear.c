/* SPDX-License-Identifier: MIT */
/* Scatter in one round: the root sends each its chunk.
 *
 *   time   alpha + (n - 1)/n beta bytes
 *   when   long vectors: nothing is sent twice; few ranks
 *
 * In the order of the ranks behind it, as many at once as the executor's window
 * holds.
 */
#include "algo/algo.h"

void plan_scatter_linear(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank, root = s->root;

    plan_init(p, n, 0);
    if (me != root) {
        plan_recv(p, root, OUT(me), PLAN_START);
        return;
    }
    for (int i = 1; i < n; i++)
        plan_send(p, (root + i) % n, IN((root + i) % n), PLAN_START);
    plan_copy(p, OUT(me), IN(me), PLAN_START);
}
