/* SPDX-License-Identifier: MIT */
/* Reduce level by level: every rank adds its slice, and carries it to the
 * root's group. The mirror of broadcast_hierarchical.c, which has the picture.
 *
 *   time   that of the broadcast, and gamma bytes in g ranks at once
 *   when   long vectors on many ranks, above all in groups with slow links
 *          between: each byte leaves each group once
 *   order  a rank adds to its own share what it hears, innermost groups first
 *   from   as the broadcast
 */
#include "algo/algo.h"
#include "plan/mirror.h"

void plan_reduce_hierarchical(struct plan *p, const struct plan_shape *s)
{
    struct plan spread;
    plan_broadcast_hierarchical(&spread, s);
    plan_mirror(p, &spread, OUT_RUN(0, s->rank == 0 ? spread.nchunks : 0));
    plan_free(&spread);
}
