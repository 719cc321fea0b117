/* SPDX-License-Identifier: MIT */
/* Alltoall in log2 n rounds, for any n.
 *
 *   time   ceil(log2 n) (alpha + beta bytes / 2), where n is a power of two
 *   when   short vectors: few messages, but a block is sent as often as its way
 *          has bits
 *   from   Bruck et al., "Efficient algorithms for all-to-all communications in
 *          multiport message-passing systems", IEEE TPDS 8(11), 1997
 *
 * A block that has d ranks to go, from any rank, goes 2^k of them in round k if
 * d has bit k. So all blocks of d with that bit leave a rank in one message,
 * and as many come for which the same is true. Rank 1 of 5:
 *
 *   round 0   d 1 3   to rank 2   from rank 0   1 is there
 *   round 1   d 2 3   to rank 3   from rank 4   2 and 3 are there
 *   round 2   d 4     to rank 0   from rank 2   4 is there
 *
 * Blocks wait in PLAN_SUM, the one that has d to go from rank `me` on at place
 * me + d. A message is put together and taken apart in scratch, as all blocks
 * are as long: only there is a block's number not its place.
 */
#include "algo/algo.h"
#include "algo/parts.h"

struct round {
    int n, me;
    int far;  /* 2^k */
    int room; /* slots for a message */
};

/* Copies a run between PLAN_SUM and scratch. */
static step_id move(struct plan *p, const struct round *r, bool out, int d,
                    int nblocks, int slot, step_id ready)
{
    const struct pieces at = plan_pieces(SUM_RUN(r->me + d, nblocks), r->n);
    for (int i = 0; i < at.n; i++) {
        const struct place waits =
            SUM_RUN(at.piece[i].chunk, at.piece[i].nchunks);
        const struct place packed =
            TMP_RUN(waits.chunk, waits.nchunks, slot + at.piece[i].slot);
        ready = plan_copy(p, out ? packed : waits, out ? waits : packed, ready);
    }
    return ready;
}

/* Blocks that need go no farther than in this round: those of its first run. */
static step_id arrive(struct plan *p, const struct round *r, int nblocks,
                      step_id got)
{
    for (int i = 0; i < nblocks; i++) {
        const int from = (r->me + r->n - r->far - i) % r->n;
        got = plan_copy(p, OUT(from), TMP(from, r->room + i), got);
    }
    return got;
}

/* Those with the bit come in runs of `far`. */
static int run_of(const struct round *r, int d)
{
    return r->far < r->n - d ? r->far : r->n - d;
}

static step_id add_round(struct plan *p, const struct round *r, step_id ready)
{
    const int to = (r->me + r->far) % r->n;
    const int from = (r->me + r->n - r->far) % r->n;
    int nblocks = 0;
    for (int d = r->far; d < r->n; d += 2 * r->far)
        nblocks += run_of(r, d);
    const step_id got = plan_recv(p, from, TMP_RUN(0, nblocks, r->room), ready);
    for (int d = r->far, slot = 0; d < r->n; d += 2 * r->far) {
        ready = move(p, r, true, d, run_of(r, d), slot, ready);
        slot += run_of(r, d);
    }
    const step_id sent = plan_send(p, to, TMP_RUN(0, nblocks, 0), ready);
    step_id taken = arrive(p, r, run_of(r, r->far), got);
    int slot = r->room + run_of(r, r->far);
    for (int d = 3 * r->far; d < r->n; d += 2 * r->far) {
        taken = move(p, r, false, d, run_of(r, d), slot, taken);
        slot += run_of(r, d);
    }
    return plan_join(p, taken, sent);
}

void plan_alltoall_bruck(struct plan *p, const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    struct round r = {n, me, 1, n / 2};

    plan_init(p, n, 2 * r.room);
    plan_copy(p, OUT(me), IN(me), PLAN_START);
    if (n == 1)
        return;
    step_id ready = plan_copy(p, SUM_RUN(0, n), IN_RUN(0, n), PLAN_START);
    for (; r.far < n; r.far *= 2)
        ready = add_round(p, &r, ready);
}
