/* SPDX-License-Identifier: MIT */
/* Alltoall by hosts, which every rank carries its share of: it sends one rank
 * of each other host all blocks that go there, then they pass on what has come.
 *
 *   time   for H hosts of g: (H - 1) alpha_outside + (g - 1) alpha_inside; each
 *          byte moves once more inside
 *   when   several ranks on each host, medium vectors: g times fewer messages
 *          cross than there are blocks
 *   from   multi-lane collectives: Traeff and Hunold, "Decomposing MPI
 *          collectives for exploiting multi-lane communication", CLUSTER 2020
 *
 * Two hosts, ranks 0 1 | 2 3; who sends which blocks, ab is from a to b:
 *
 *   across   0 sends 02 03 to 2, 2 sends 20 21 to 0; 1 and 3 as well
 *   inside   0 sends 01 21 to 1, 1 sends 10 30 to 0; 2 and 3 as well
 *
 * Hosts need not be alike: member i of m sends to member i k / m of k. They are
 * the innermost groups: what goes by way of the outer ones too has fewer
 * messages, but crosses each port twice. Without groups it is all to all at
 * once, and on more than 16 ranks, where that is too many messages, Bruck's.
 */
#include "algo/algo.h"
#include "algo/blocks.h"

struct job {
    struct plan *plan;
    struct stages stages;
    struct circle circle;
    int rank;
    int rows;          /* from other hosts, each a block for each rank here */
    int heard, packed; /* slots, behind the rows': of what comes from the next
                          rank, and goes to the next */
};

/* Those that rank x of a host hears from that so far before it. */
static struct range sources(const struct job *j, int x, int distance)
{
    return groups_peers(circle_host(&j->circle, -distance), j->circle.here, x);
}

/* How many rows rank x of this host has from other hosts. */
static int rows_of(const struct job *j, int x)
{
    int n = 0;
    for (int t = 1; t < j->circle.n; t++)
        n += range_size(sources(j, x, t));
    return n;
}

/* --- Across: a host's blocks from one rank. */

static int across_count(void *context, int turn)
{
    const struct job *j = context;
    return range_size(sources(j, j->rank, turn));
}

static void across_hear(void *context, int turn)
{
    struct job *j = context;
    const struct range from = sources(j, j->rank, turn);
    const int g = range_size(j->circle.here);
    for (int y = from.from; y < from.to; y++, j->heard += g)
        blocks_recv(j->plan, y, j->heard, g, 0);
}

static void across_tell(void *context, int turn)
{
    struct job *j = context;
    const struct range to = circle_host(&j->circle, turn);
    plan_send(j->plan, groups_peer(j->circle.here, to, j->rank),
              IN_RUN(to.from, range_size(to)), PLAN_START);
}

/* --- Inside: of each row the peer's block, a rank's own row first. */

static int inside_peer(const struct job *j, int turn)
{
    const int g = range_size(j->circle.here);
    return (j->circle.me + g + turn) % g;
}

static int inside_count(void *context, int turn)
{
    (void)context;
    (void)turn;
    return 1;
}

static void inside_hear(void *context, int turn)
{
    struct job *j = context;
    const int peer = j->circle.here.from + inside_peer(j, -turn);
    const int n = 1 + rows_of(j, peer);
    blocks_recv(j->plan, peer, j->heard, n, 0);
    j->heard += n;
}

static void inside_tell(void *context, int turn)
{
    struct job *j = context;
    const int q = inside_peer(j, turn), peer = j->circle.here.from + q;
    const int g = range_size(j->circle.here);
    step_id ready = stages_await(&j->stages);
    ready = plan_copy(j->plan, TMP(peer, j->packed), IN(peer), ready);
    for (int i = 0; i < j->rows; i++)
        ready = blocks_move(j->plan, i * g + q, j->packed + 1 + i, 1, ready);
    blocks_send(j->plan, peer, j->packed, 1 + j->rows, 0, ready);
    j->packed += 1 + j->rows;
}

/* Of rank x of this host, in the order of its rows; the block from the first is
 * in a slot, the next so far behind it. */
static void deliver(struct job *j, int x, int slot, int step, step_id ready)
{
    for (int t = 1; t < j->circle.n; t++) {
        const struct range from = sources(j, x, t);
        for (int y = from.from; y < from.to; y++, slot += step)
            plan_copy(j->plan, OUT(y), TMP(y, slot), ready);
    }
}

static void deliver_all(struct job *j)
{
    const int g = range_size(j->circle.here);
    int slot = j->rows * g;
    const step_id ready = stages_await(&j->stages);
    plan_copy(j->plan, OUT(j->rank), IN(j->rank), ready);
    deliver(j, j->rank, j->circle.me, g, ready);
    for (int i = 1; i < g; i++) {
        const int peer = j->circle.here.from + inside_peer(j, -i);
        plan_copy(j->plan, OUT(peer), TMP(peer, slot), ready);
        deliver(j, peer, slot + 1, 1, ready);
        slot += 1 + rows_of(j, peer);
    }
}

void plan_alltoall_hierarchical(struct plan *p, const struct plan_shape *s)
{
    if (groups_of(s).depth == 0) {
        (few_ranks(s) ? plan_alltoall_direct : plan_alltoall_bruck)(p, s);
        return;
    }
    struct job j = {
        .plan = p,
        .stages = {p, 0, 0, PLAN_START},
        .circle = circle_of(s),
        .rank = s->rank,
    };
    const int g = range_size(j.circle.here);
    j.rows = rows_of(&j, j.rank);
    j.packed = j.rows * g;
    for (int x = j.circle.here.from; x < j.circle.here.to; x++)
        j.packed += x == j.rank ? 0 : 1 + rows_of(&j, x);
    plan_init(p, s->nranks, 0);
    blocks_exchange(&(struct turns){j.circle.n, &j, across_count, across_hear,
                                    across_tell});
    stages_next(&j.stages);
    blocks_exchange(
        &(struct turns){g, &j, inside_count, inside_hear, inside_tell});
    stages_next(&j.stages);
    deliver_all(&j);
    p->nslots = j.packed;
}
