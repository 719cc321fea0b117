/* SPDX-License-Identifier: MIT */
/* Broadcast by a scatter, whose chunks all ranks then gather.
 *
 *   time   at most (ceil(log2 n) + 1) alpha + 2 (n - 1)/n beta bytes
 *   when   medium to long vectors on many ranks
 *   from   Barnett et al., "Interprocessor collective communication library
 *          (InterCom)", SHPCC 1994; the allgather is Bruck's
 *
 * Rank 2 of 4:
 *
 *   scatter    receives chunk 2 from rank 0
 *   round 0    receives 3 from rank 3, sends 2 to rank 1
 *   round 1    receives 0 1 from rank 0; to rank 0 it need send nothing
 */
#include "algo/algo.h"
#include "algo/parts.h"

void plan_broadcast_scatter_allgather(struct plan *p,
                                      const struct plan_shape *s)
{
    const int n = s->nranks, me = s->rank;
    step_id ready = PLAN_START;

    plan_init(p, n, 0);
    if (me > 0)
        ready = plan_recv(p, 0, OUT(me), PLAN_START);
    for (int c = 1; c < n && me == 0; c++)
        plan_send(p, c, IN(c), PLAN_START);
    plan_double(p, n, me, me == 0 ? PLAN_IN : PLAN_OUT, ready, true);
    if (me == 0)
        plan_copy(p, OUT_RUN(0, n), IN_RUN(0, n), PLAN_START);
}
