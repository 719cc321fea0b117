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
 *
 * To a root elsewhere rank 0 hands each segment on.
 */
#include "algo/algo.h"

/* To a root elsewhere: what it had there is gone once it was sent. */
static void receive_sum(struct plan *p, int segment, const step_id *sent)
{
    plan_recv(p, 0, OUT(segment), sent[segment]);
}

void plan_reduce_chain(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank, segments = s->segments;
    const bool last = me == n - 1, ends = me == 0 && s->root == 0;
    const bool waits = s->root > 0 && me == s->root;
    int received = 0;
    step_id sent[PLAN_SEGMENTS_MAX];

    plan_init(p, segments, 2);
    if (n == 1) {
        plan_copy(p, OUT_RUN(0, segments), IN_RUN(0, segments), PLAN_START);
        return;
    }
    for (int c = 0; c < segments; c++) {
        /* Two sends may still read the slots. */
        const step_id read = c < 2 || ends ? PLAN_START : sent[c - 2];
        const struct place heard = TMP(c, c % 2);
        const struct place sum = last ? IN(c) : ends ? OUT(c) : heard;
        step_id ready = PLAN_START;
        if (!last) {
            const step_id got = plan_recv(p, me + 1, heard, read);
            if (waits && c >= 2)
                receive_sum(p, received++, sent);
            ready = plan_reduce(p, sum, IN(c), heard, got);
        }
        if (!ends)
            sent[c] = plan_send(p, me > 0 ? me - 1 : s->root, sum, ready);
    }
    while (waits && received < segments)
        receive_sum(p, received++, sent);
}
