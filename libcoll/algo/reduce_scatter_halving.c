/* SPDX-License-Identifier: MIT */
/* Reduce-scatter by halving on a circulant graph, for any n.
 *
 *   time   ceil(log2 n) alpha + (n - 1)/n (beta + gamma) bytes
 *   when   short and medium vectors: log2 n rounds
 *   order  a rank adds what it hears to what it has, farthest first; chunk c is
 *          summed in one way, at rank c
 *   from   Traeff, "Optimal, non-pipelined reduce-scatter and allreduce
 *          algorithms", arXiv 2410.14234, 2024
 *
 * A rank has partial sums of chunks me, me + 1 ... It hands the upper half of
 * them to the rank for whom they are the lower half, and hears as many of its
 * own lower half. Rank 1 of 5, in chunks (modulo 5):
 *
 *   round 0   has 1 2 3 4 0   sends 4 0 to rank 4   hears 1 2 from rank 3
 *   round 1   has 1 2 3       sends 3   to rank 3   hears 1   from rank 4
 *   round 2   has 1 2         sends 2   to rank 2   hears 1   from rank 0
 */
#include "algo/algo.h"
#include "algo/parts.h"

/* What is heard in the second round; the first goes where the sums stay. */
int plan_halve_slots(int n)
{
    return (n + 1) / 2 / 2;
}

step_id plan_halve(struct plan *p, int n, int me, struct place result)
{
    step_id ready = PLAN_START, got[2];
    for (int have = n, left; have > 1; have = left) {
        left = (have + 1) / 2;
        const int give = have - left, top = (me + left) % n;
        const bool first = have == n;
        const struct pieces theirs =
            plan_pieces(first ? IN_RUN(top, give) : SUM_RUN(top, give), n);
        const struct pieces heard =
            plan_pieces(first ? SUM_RUN(me, give) : TMP_RUN(me, give, 0), n);
        const struct pieces mine =
            plan_pieces(first ? IN_RUN(me, give) : SUM_RUN(me, give), n);
        const struct pieces sum =
            plan_pieces(left == 1 ? result : SUM_RUN(me, give), n);

        for (int i = 0; i < heard.n; i++)
            got[i] =
                plan_recv(p, (me + n - left) % n, heard.piece[i], PLAN_START);
        for (int i = 0; i < theirs.n; i++)
            plan_send(p, top, theirs.piece[i], ready);
        if (first && left > give) { /* the middle one of an odd number */
            const int middle = (me + give) % n;
            plan_copy(p, SUM(middle), IN(middle), PLAN_START);
        }
        for (int i = 0; i < heard.n; i++)
            ready = plan_reduce(p, sum.piece[i], mine.piece[i], heard.piece[i],
                                got[i]);
    }
    return ready;
}

void plan_reduce_scatter_halving(struct plan *p, const struct plan_shape *s)
{
    plan_init(p, s->nranks, plan_halve_slots(s->nranks));
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    else
        plan_halve(p, s->nranks, s->rank, OUT(s->rank));
}
