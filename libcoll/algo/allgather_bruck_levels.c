/* SPDX-License-Identifier: MIT */
/* Allgather by doubling, group by group from the innermost outwards: what a
 * group has gathered goes on as one message.
 *
 *   time   sum over the levels of ceil(log2 k) alpha for k groups in one, and
 *          (n - 1)/n beta bytes; every rank's share of what crosses is all of
 * it when   short vectors on ranks in groups: few messages, of which the last
 *          few go far
 *   from   Bruck et al., "Efficient algorithms for all-to-all communications in
 *          multiport message-passing systems", IEEE TPDS 8(11), 1997, with
 *          three ports, at each level
 *
 * Groups of 3 and 2, ranks 0 1 2 | 3 4; who sends what:
 *
 *   inside    as allgather_bruck.c in each, but in one round up to 4 ranks, two
 *             up to 16: 0 1 2 and 3 4 are everywhere there
 *   outside   0 sends 0-2 to 3, 1 sends 0-2 to 4, 3 sends 3-4 to 0 and 1,
 *             4 sends 3-4 to 2
 *
 * Groups need not be alike: member i of m hears from member i k / m of k. A run
 * of groups that wraps round is two messages.
 */
#include "algo/algo.h"
#include "algo/groups.h"
#include "plan/mirror.h"

enum { RADIX = 4 };

/* The groups of a level in one of the level outside, as this rank sees them. */
struct ring {
    const struct groups *groups;
    int d, n, first; /* groups [first, first + n) of level d */
    int at, me;      /* this rank's, from 0; its position */
};

static struct range span(const struct ring *r, int group)
{
    return groups_span(r->groups, r->d, r->first + group % r->n);
}

/* The chunks of so many groups from one on: *second is empty unless they go on
 * at the first group. */
static struct place run(const struct ring *r, int group, int n,
                        struct place *second)
{
    const int from = group % r->n, over = from + n - r->n;
    const int end = over > 0 ? r->n : from + n;
    const int first = span(r, from).from, base = span(r, 0).from;
    *second = OUT_RUN(base, over > 0 ? span(r, over - 1).to - base : 0);
    return OUT_RUN(first, span(r, end - 1).to - first);
}

/* Of a round: hears what groups `have`, 2 `have` ... behind have in common, and
 * tells those before. */
static step_id exchange(struct plan *p, const struct ring *r, int have,
                        step_id ready)
{
    const struct range here = span(r, r->at);
    struct place part[2];
    step_id heard[2 * (RADIX - 1)];
    int nheard = 0;
    for (int i = have; i < RADIX * have && i < r->n; i += have) {
        const int more = have < r->n - i ? have : r->n - i;
        const int peer = groups_peer(here, span(r, r->at + i), r->me);
        part[0] = run(r, r->at + i, more, &part[1]);
        for (int k = 0; k < 2 && part[k].nchunks; k++)
            heard[nheard++] = plan_recv(p, peer, part[k], PLAN_START);
    }
    for (int i = have; i < RADIX * have && i < r->n; i += have) {
        const int more = have < r->n - i ? have : r->n - i;
        const struct range to =
            groups_peers(span(r, r->at + r->n - i), here, r->me);
        part[0] = run(r, r->at, more, &part[1]);
        for (int y = to.from; y < to.to; y++)
            for (int k = 0; k < 2 && part[k].nchunks; k++)
                plan_send(p, y, part[k], ready);
    }
    for (int i = 0; i < nheard; i++)
        ready = plan_join(p, ready, heard[i]);
    plan_end_round(p);
    return ready;
}

void plan_allgather_bruck_levels(struct plan *p, const struct plan_shape *s)
{
    const struct groups groups = groups_of(s);
    if (groups.depth == 0) {
        plan_allgather_bruck(p, s);
        return;
    }
    plan_init(p, s->nranks, 0);
    step_id ready = plan_copy(p, OUT(s->rank), IN(s->rank), PLAN_START);
    for (int d = groups.depth; d >= 0; d--) {
        const int mine = groups_find(&groups, d, s->rank);
        const struct range all = groups_siblings(&groups, d, mine);
        const struct ring r = {
            .groups = &groups,
            .d = d,
            .n = all.to - all.from,
            .first = all.from,
            .at = mine - all.from,
            .me = s->rank,
        };
        for (int have = 1; have < r.n; have *= RADIX)
            ready = exchange(p, &r, have, ready);
    }
}
