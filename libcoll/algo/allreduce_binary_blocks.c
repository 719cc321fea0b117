/* SPDX-License-Identifier: MIT */
/* Allreduce on binary blocks: halving and doubling for any number of ranks.
 *
 *   time   2 log2 p alpha + (2 beta + gamma) (1 + sum of 1/z) bytes, over the
 *          blocks of z ranks but for the largest, of p, and the smallest.
 *          Folding adds 2 alpha + (2 beta + gamma) bytes instead
 *   when   medium and long vectors on 12, 24 or 160 ranks: n is the sum of a
 *          few large powers of two; 63 ranks gain little
 *   order  a block's sum, by neighbours first, then that of the blocks smaller
 *          than it: in pairs
 *   from   Rabenseifner and Traeff, "More efficient reduction algorithms for
 *          non-power-of-two number of processors in message-passing parallel
 *          systems", EuroPVM/MPI 2004
 *
 * The ranks are cut into blocks of powers of two, largest first. Each block
 * reduces and scatters inside; the smallest hands its parts to the next larger
 * one, that adds and hands them on. The largest has the sums, and all goes
 * back. A smaller block has fewer rounds, so handing over costs no round. The
 * paper's blocks have their largest exchange far off, these between neighbours.
 * 7 ranks, and what they hold after scattering:
 *
 *   0: 0     2: 1     1: 2     3: 3
 *      ^        ^        ^        ^
 *   4: 0 1 __/        5: 2 3 __/
 *      ^                 ^
 *   6: 0 1 2 3 _________/
 */
#include "algo/algo.h"
#include "algo/parts.h"

struct block {
    int first, size; /* ranks; size 0: there is none */
};

struct blocks {
    struct block larger, mine, smaller;
    int largest; /* size */
};

static struct blocks blocks_of(int n, int me)
{
    struct blocks b = {.largest = 1};
    while (2 * b.largest <= n)
        b.largest *= 2;
    for (int first = 0, size = b.largest; size > 0; size /= 2)
        if (n & size) {
            const struct block block = {first, size};
            first += size;
            if (first <= me)
                b.larger = block;
            else if (!b.mine.size)
                b.mine = block;
            else if (!b.smaller.size)
                b.smaller = block;
        }
    return b;
}

/* Of the i-th of so many parts of a vector, halved by neighbours first, which
 * rank has it: a power of two in reverse. */
static int holder_of(int i, int nparts)
{
    int holder = 0;
    for (int bit = 1; bit < nparts; bit *= 2)
        holder = 2 * holder + (i / bit & 1);
    return holder;
}

/* The chunks that this rank holds, in the pieces that ranks of the larger block
 * hold: from the holders, or to them. */
static step_id hand_over(struct plan *p, const struct blocks *b,
                         struct place mine, bool up, step_id ready)
{
    const int size = b->largest / b->larger.size;
    step_id all = ready;
    for (int c = mine.chunk; c < mine.chunk + mine.nchunks; c += size) {
        const struct place piece = {mine.buf, c, size, 0};
        const int holder =
            b->larger.first + holder_of(c / size, b->larger.size);
        if (up)
            plan_send(p, holder, piece, ready);
        else
            plan_recv(p, holder, piece, PLAN_START);
    }
    /* Joins stand behind all receives, or they would hold them back. */
    const int n = mine.nchunks / size;
    for (step_id i = p->nsteps - n, end = p->nsteps; !up && i < end; i++)
        all = plan_join(p, all, i);
    return all;
}

void plan_allreduce_binary_blocks(struct plan *p, const struct plan_shape *s)
{
    const struct blocks b = blocks_of(s->nranks, s->rank);
    const int me = s->rank - b.mine.first, size = b.largest / b.mine.size;
    struct place mine = /* in the end */
        IN_RUN(holder_of(me, b.mine.size) * size, size);
    const struct place heard =
        TMP_RUN(mine.chunk, size, b.mine.size > 1 ? b.largest / 2 : 0);
    const int below =
        b.smaller.first + (b.smaller.size ? me % b.smaller.size : 0);
    struct halving h = halving_of(b.largest);
    step_id got = PLAN_START;

    plan_init(p, b.largest, heard.slot + (b.smaller.size ? size : 0));
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    if (b.smaller.size)
        got = plan_recv(p, below, heard, PLAN_START);
    for (int bit = 1; bit < b.mine.size; bit *= 2)
        halving_add(&h, b.mine.first + (me ^ bit), me & bit);
    step_id ready = plan_halvings(p, &h, PLAN_IN, PLAN_START);
    if (b.mine.size > 1)
        mine.buf = PLAN_OUT;
    if (b.smaller.size) {
        const struct place sum = OUT_RUN(mine.chunk, size);
        ready = plan_reduce(p, sum, mine, heard, plan_join(p, ready, got));
        mine = sum;
    }
    if (b.larger.size) {
        hand_over(p, &b, mine, true, ready);
        /* What comes back has this rank's share in it: it has been read. */
        mine.buf = PLAN_OUT;
        ready = hand_over(p, &b, mine, false, PLAN_START);
    }
    if (b.smaller.size)
        plan_send(p, below, mine, ready);
    plan_doublings(p, &h, ready);
}
