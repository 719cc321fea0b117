/* SPDX-License-Identifier: MIT */
/* Broadcast along a chain, segment after segment.
 *
 *   time   (n - 2 + m) (alpha + beta bytes / m), with m segments
 *   when   long vectors on few ranks, or on hosts that are numbered in order:
 *          each link carries the vector once
 *   from   Pjesivac-Grbovic et al., "Performance analysis of MPI collective
 *          operations", Cluster Computing 10(2), 2007 (there: pipeline)
 *
 *       0 --> 1 --> 2 --> 3      segment 0
 *          0 --> 1 --> 2 --> 3   segment 1, a step behind
 */
#include "algo/algo.h"

void plan_broadcast_chain(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank, segments = s->segments;
    step_id got[PLAN_SEGMENTS_MAX];

    plan_init(p, segments, 0);
    for (int c = 0; c < segments; c++)
        got[c] =
            me == 0 ? PLAN_START : plan_recv(p, me - 1, OUT(c), PLAN_START);
    for (int c = 0; c < segments && me + 1 < n; c++)
        plan_send(p, me + 1, me == 0 ? IN(c) : OUT(c), got[c]);
    if (me == 0)
        plan_copy(p, OUT_RUN(0, segments), IN_RUN(0, segments), PLAN_START);
}
