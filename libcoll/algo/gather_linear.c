/* SPDX-License-Identifier: MIT */
/* Gather in one round: each sends its chunk to the root.
 *
 *   time   alpha + (n - 1)/n beta bytes
 *   when   long vectors: nothing is sent twice; few ranks
 *
 * The root takes them in the order of the ranks behind it, as many at once as
 * the executor's window holds.
 */
#include "algo/algo.h"

void plan_gather_linear(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank, root = s->root;

    plan_init(p, n, 0);
    if (me != root) {
        plan_send(p, root, IN(me), PLAN_START);
        return;
    }
    for (int i = 1; i < n; i++)
        plan_recv(p, (root + i) % n, OUT((root + i) % n), PLAN_START);
    plan_copy(p, OUT(me), IN(me), PLAN_START);
}
