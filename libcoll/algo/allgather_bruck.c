/* SPDX-License-Identifier: MIT */
/* Allgather by doubling on a circulant graph, for any n.
 *
 *   time   ceil(log2 n) alpha + (n - 1)/n beta bytes
 *   when   short and medium vectors: log2 n rounds
 *   from   Bruck et al., "Efficient algorithms for all-to-all communications in
 *          multiport message-passing systems", IEEE TPDS 8(11), 1997
 *
 * A rank has chunks me, me + 1 ... and hears as many more from the rank for
 * whom those are the first. Every chunk goes to its own place, so the final
 * rotation of the paper is not needed; a run that wraps round is two messages.
 * Rank 1 of 5, in chunks (modulo 5):
 *
 *   round 0   has 1         sends 1     to rank 0   hears 2   from rank 2
 *   round 1   has 1 2       sends 1 2   to rank 4   hears 3 4 from rank 3
 *   round 2   has 1 2 3 4   sends 1     to rank 2   hears 0   from rank 0
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_double(struct plan *p, int n, int me, enum plan_buf mine,
                 step_id ready, bool root_has_all)
{
    for (int have = 1; have < n; have *= 2) {
        const int more = have < n - have ? have : n - have;
        const int from = (me + have) % n, to = (me + n - have) % n;
        const struct pieces heard = plan_pieces(OUT_RUN(from, more), n);
        const struct pieces sent =
            plan_pieces((struct place){(uint8_t)mine, me, more, 0}, n);
        const bool hears = me > 0 || !root_has_all;
        step_id got[2];
        for (int i = 0; i < heard.n && hears; i++)
            got[i] = plan_recv(p, from, heard.piece[i], PLAN_START);
        for (int i = 0; i < sent.n && (to > 0 || !root_has_all); i++)
            plan_send(p, to, sent.piece[i], ready);
        for (int i = 0; i < heard.n && hears; i++)
            ready = plan_join(p, ready, got[i]);
    }
}

void plan_allgather_bruck(struct plan *p, const struct plan_shape *s)
{
    plan_init(p, s->nranks, 0);
    const step_id mine = plan_copy(p, OUT(s->rank), IN(s->rank), PLAN_START);
    plan_double(p, s->nranks, s->rank, PLAN_OUT, mine, false);
}
