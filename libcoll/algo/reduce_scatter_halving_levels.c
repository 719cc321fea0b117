/* SPDX-License-Identifier: MIT */
/* Reduce-scatter by halving, group by group from the outermost inwards. The
 * mirror of allgather_bruck_levels.c, which has the picture.
 *
 *   time   that of the allgather, and about gamma bytes for each level
 *   when   short vectors on ranks in groups: few messages, of which the first
 *          few go far
 *   order  a rank adds to its own share what it hears, outermost groups first
 *   from   as the allgather
 */
#include "algo/algo.h"
#include "plan/mirror.h"

void plan_reduce_scatter_halving_levels(struct plan *p,
                                        const struct plan_shape *s)
{
    if (!s->tree || s->tree->nlevels == 0) {
        plan_reduce_scatter_halving(p, s);
        return;
    }
    struct plan spread;
    plan_allgather_bruck_levels(&spread, s);
    plan_mirror(p, &spread, OUT(s->rank));
    plan_free(&spread);
}
