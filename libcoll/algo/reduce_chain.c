/* SPDX-License-Identifier: MIT */
/* Reduce along a chain, segment after segment.
 *
 *   time   (n - 2 + m) (alpha + (beta + gamma) bytes / m), with m segments
 *   when   long vectors on few ranks, or on hosts that are numbered in order:
 *          each link carries the vector once
 *   order  from the last rank down, so a run repeats bit for bit
 *   from   Pjesivac-Grbovic et al., "Performance analysis of MPI collective
 *          operations", Cluster Computing 10(2), 2007 (there: pipeline)
 *
 *       3 --> 2 --> 1 --> 0      segment 0
 *          3 --> 2 --> 1 --> 0   segment 1, a step behind
 */
#include "algo/algo.h"

void plan_reduce_chain(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank, segments = s->segments;
    const bool last = me == n - 1;
    /* The sends that still read the two slots. */
    step_id sent[2] = {PLAN_START, PLAN_START};

    plan_init(p, segments, 2);
    if (n == 1) {
        plan_copy(p, OUT_RUN(0, segments), IN_RUN(0, segments), PLAN_START);
        return;
    }
    for (int c = 0; c < segments; c++) {
        const struct place heard = TMP(c, c % 2);
        const struct place sum = last ? IN(c) : me == 0 ? OUT(c) : heard;
        step_id ready = PLAN_START;
        if (!last) {
            const step_id got = plan_recv(p, me + 1, heard, sent[c % 2]);
            ready = plan_reduce(p, sum, IN(c), heard, got);
        }
        if (me > 0)
            sent[c % 2] = plan_send(p, me - 1, sum, ready);
    }
}
