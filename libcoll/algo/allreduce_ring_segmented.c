/* SPDX-License-Identifier: MIT */
/* Allreduce on a ring, each chunk in pieces that follow one another.
 *
 *   time   (n - 1)/n (2 beta + gamma/m) bytes + 2 (n - 1) alpha, with m
 *          segments and gamma up to beta: while one piece is added, the next
 *          ones are on their way
 *   when   long vectors on few ranks, where adding takes a good part of the
 *          time that a chunk takes to arrive
 *   order  chunk c is summed from rank c upward, as in allreduce_ring.c
 *   from   Patarasuk and Yuan, JPDC 69(2), 2009; pieces as in NCCL's slices
 *
 * With one segment it is allreduce_ring. A message more costs its overhead, so
 * both are on offer. Rank 2 of 4 with two segments, piece c.i of chunk c:
 *
 *   post 2.0, 2.1 (for 1.0, 1.1)
 *   add 1.0    post 1.0 (for 0.0)
 *   add 1.1    post 1.1 (for 0.1)
 *   add 0.0    post 0.0 (for 3.0) ...
 */
#include "algo/algo.h"

static int mod(int x, int n)
{
    return (x % n + n) % n;
}

void plan_allreduce_ring_segmented(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, m = s->segments, me = s->rank;
    const int right = (me + 1) % n, left = mod(me - 1, n);
    const int sums = (n - 1) * m; /* and as many pieces are then gathered */
    step_id got[PLAN_SEGMENTS_MAX], ready[PLAN_SEGMENTS_MAX];

    plan_init(p, n * m, m);
    if (n == 1) {
        plan_copy(p, OUT_RUN(0, m), IN_RUN(0, m), PLAN_START);
        return;
    }
    for (int j = 0; j < m; j++)
        ready[j] = PLAN_START;

    /* Piece i of the run is posted, then the oldest under way is added. What
     * comes back holds this rank's share, so the earlier send of it has been
     * read. */
    for (int i = 0; i < 2 * sums; i++) {
        const int k = i / m, j = i % m, oldest = i - (m - 1);
        const int out = mod(me - k, n) * m + j, in = mod(me - k - 1, n) * m + j;
        const bool adds = i < sums;
        got[j] = plan_recv(p, left, adds ? TMP(in, j) : OUT(in), PLAN_START);
        plan_send(p, right, i < m ? IN(out) : OUT(out), ready[j]);
        ready[j] = got[j];
        if (oldest >= 0 && oldest < sums) {
            const int o = oldest % m;
            const int c = mod(me - oldest / m - 1, n) * m + o;
            ready[o] = plan_reduce(p, OUT(c), IN(c), TMP(c, o), got[o]);
        }
    }
}
