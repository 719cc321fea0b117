/* SPDX-License-Identifier: MIT */
/* Alltoall with one message from each host to each other: every rank of a host
 * carries those to some of the hosts.
 *
 *   time   for H hosts of g, H > g: 2 (g - 1) alpha_inside +
 *          (H - 1)/g alpha_outside; each byte moves twice more inside
 *   when   many hosts of several ranks, short vectors: g times fewer messages
 *          cross than in alltoall_hierarchical.c
 *   from   Traeff and Rougier, "MPI collectives and datatypes for hierarchical
 *          all-to-all communication", EuroMPI/ASIA 2014, with as many leaders
 *          as ranks
 *
 * Three hosts of two, ranks 0 1 | 2 3 | 4 5; ab is the block from a to b. Of
 * each host the first rank carries what goes to the next host, the second
 * what goes to the one after that:
 *
 *   in       1 sends 12 13 to 0, and 0 sends 04 05 to 1
 *   across   0 sends 02 03 12 13 to 2, and 1 sends 04 05 14 15 to 5
 *   out      0 has heard 40 41 50 51, and sends 41 51 to 1
 *
 * Groups are the innermost ones. Blocks within one go directly, and first.
 */
#include "algo/algo.h"
#include "algo/blocks.h"
#include "algo/parts.h"

struct job {
    struct plan *plan;
    struct stages stages;
    struct circle circle;
    struct range distances; /* for which this rank carries */
    int nto, nfrom; /* ranks of the hosts so far behind, and so far before */
    int rows, packed, heard, used; /* slots: of rows, of the next message, of
                                      what comes; so many in all */
    int told;                      /* blocks of a row */
    int most;                      /* messages that another host's are */
    int at;                        /* slot of what is told across, */
    step_id packed_ready;          /* once this has finished */
};

/* What a turn across is: one message for, or from, a host. */
struct across {
    int distance, message;
    struct range host;
    int n;   /* blocks of all its messages */
    bool is; /* it is this rank's, and there is one */
};

/* The distances for which rank i of g carries: what goes so far to the hosts
 * behind, and what comes so far from those before. */
static struct range share(const struct job *j, int i, int g)
{
    const int others = j->circle.n - 1;
    return (struct range){1 + i * others / g, 1 + (i + 1) * others / g};
}

/* The rank of a host whose share a distance is in. */
static int carrier(const struct job *j, struct range host, int distance)
{
    return host.from + (distance * range_size(host) - 1) / (j->circle.n - 1);
}

/* The blocks for, or from, all hosts at such distances, in the order of ranks
 * but that it may wrap round. */
static struct pieces blocks_to(const struct job *j, struct range distances)
{
    int n = 0;
    for (int t = distances.from; t < distances.to; t++)
        n += range_size(circle_host(&j->circle, t));
    return plan_pieces(IN_RUN(circle_host(&j->circle, distances.from).from, n),
                       j->circle.groups.nranks);
}

static struct pieces blocks_from(const struct job *j, struct range distances)
{
    int n = 0;
    for (int t = distances.from; t < distances.to; t++)
        n += range_size(circle_host(&j->circle, -t));
    return plan_pieces(
        OUT_RUN(circle_host(&j->circle, 1 - distances.to).from, n),
        j->circle.groups.nranks);
}

static int length(struct pieces what)
{
    return what.piece[0].nchunks + (what.n > 1 ? what.piece[1].nchunks : 0);
}

/* A piece of a row in scratch. */
static struct place part(struct pieces what, int i, int slot)
{
    const struct place x = what.piece[i];
    return TMP_RUN(x.chunk, x.nchunks, slot + x.slot);
}

/* --- In: each rank's rows to those that carry them. */

static int peer(const struct job *j, int turn)
{
    const int g = range_size(j->circle.here);
    return (j->circle.me + g + turn) % g;
}

static int in_count(void *context, int turn)
{
    (void)context;
    (void)turn;
    return 3;
}

static void in_hear(void *context, int turn)
{
    struct job *j = context;
    const int q = peer(j, -turn), rank = j->circle.here.from + q;
    const struct pieces row = blocks_to(j, j->distances);
    plan_recv(j->plan, rank, OUT(rank), PLAN_START);
    for (int i = 0; i < row.n; i++)
        plan_recv(j->plan, rank, part(row, i, j->rows + q * j->nto),
                  PLAN_START);
}

static void in_tell(void *context, int turn)
{
    struct job *j = context;
    const int q = peer(j, turn), rank = j->circle.here.from + q;
    const struct pieces row =
        blocks_to(j, share(j, q, range_size(j->circle.here)));
    plan_send(j->plan, rank, IN(rank), PLAN_START);
    for (int i = 0; i < row.n; i++)
        plan_send(j->plan, rank, row.piece[i], PLAN_START);
}

static void go_in(struct job *j)
{
    const struct pieces row = blocks_to(j, j->distances);
    const int rank = j->circle.here.from + j->circle.me;
    plan_copy(j->plan, OUT(rank), IN(rank), PLAN_START);
    for (int i = 0; i < row.n; i++)
        plan_copy(j->plan, part(row, i, j->rows + j->circle.me * j->nto),
                  row.piece[i], PLAN_START);
    blocks_exchange(&(struct turns){range_size(j->circle.here), j, in_count,
                                    in_hear, in_tell});
}

/* --- Across: a host's rows for another, one after another. */

static bool carries(const struct job *j, int distance)
{
    return j->distances.from <= distance && distance < j->distances.to;
}

/* Where hosts have many ranks what they have for each other is several
 * messages. A turn is for one of them, as who told them all before it heard any
 * would wait for who does the same. */
static struct across across_of(const struct job *j, int turn, int sign)
{
    struct across a = {.distance = 1 + (turn - 1) / j->most,
                       .message = (turn - 1) % j->most};
    a.host = circle_host(&j->circle, sign * a.distance);
    a.n = range_size(a.host) * range_size(j->circle.here);
    a.is = carries(j, a.distance) && a.message < blocks_messages(j->plan, a.n);
    return a;
}

static int across_count(void *context, int turn)
{
    return across_of(context, turn, -1).is;
}

static void across_hear(void *context, int turn)
{
    struct job *j = context;
    const struct across a = across_of(j, turn, -1);
    if (!a.is)
        return;
    blocks_recv(j->plan, carrier(j, a.host, a.distance), j->used, a.n,
                a.message);
    if (a.message == blocks_messages(j->plan, a.n) - 1)
        j->used += a.n;
}

/* Puts a host's rows one after another; those for one host only are so. */
static void pack(struct job *j, int n)
{
    const int g = range_size(j->circle.here);
    j->packed_ready = stages_await(&j->stages);
    j->at = j->rows;
    if (n == j->nto)
        return;
    j->at = j->packed;
    for (int i = 0; i < g; i++)
        j->packed_ready = blocks_move(j->plan, j->rows + i * j->nto + j->told,
                                      j->at + i * n, n, j->packed_ready);
    j->packed += g * n;
    j->told += n;
}

static void across_tell(void *context, int turn)
{
    struct job *j = context;
    const struct across a = across_of(j, turn, 1);
    if (!a.is)
        return;
    if (a.message == 0)
        pack(j, range_size(a.host));
    blocks_send(j->plan, carrier(j, a.host, a.distance), j->at, a.n, a.message,
                j->packed_ready);
}

static void go_across(struct job *j)
{
    const int g = range_size(j->circle.here);
    j->most = 1;
    for (int t = 1; t < j->circle.n; t++) {
        const int n = blocks_messages(
            j->plan, g * range_size(circle_host(&j->circle, t)));
        j->most = n > j->most ? n : j->most;
    }
    stages_next(&j->stages);
    blocks_exchange(&(struct turns){1 + (j->circle.n - 1) * j->most, j,
                                    across_count, across_hear, across_tell});
}

/* --- Out: what has come for each rank of this host. */

static int out_count(void *context, int turn)
{
    (void)context;
    (void)turn;
    return 2;
}

static void out_hear(void *context, int turn)
{
    struct job *j = context;
    const int q = peer(j, -turn);
    const struct pieces all =
        blocks_from(j, share(j, q, range_size(j->circle.here)));
    for (int i = 0; i < all.n; i++)
        plan_recv(j->plan, j->circle.here.from + q, all.piece[i], PLAN_START);
}

/* Copies the block from each source for rank q of this host, the sources in
 * the order of ranks: into a message, or if that is this rank to their places.
 */
static step_id take(struct job *j, int q, step_id ready)
{
    const int g = range_size(j->circle.here);
    int at = j->heard + g * j->nfrom, to = j->used;
    for (int t = j->distances.to - 1; t >= j->distances.from; t--) {
        const struct range from = circle_host(&j->circle, -t);
        at -= range_size(from) * g;
        for (int i = 0; i < range_size(from); i++, to++) {
            const int slot = at + i * g + q, source = from.from + i;
            ready =
                q == j->circle.me
                    ? plan_copy(j->plan, OUT(source), TMP(source, slot), ready)
                    : blocks_move(j->plan, slot, to, 1, ready);
        }
    }
    return ready;
}

static void out_tell(void *context, int turn)
{
    struct job *j = context;
    const int q = peer(j, turn);
    const struct pieces all = blocks_from(j, j->distances);
    const step_id ready = take(j, q, stages_await(&j->stages));
    for (int i = 0; i < all.n; i++)
        plan_send(j->plan, j->circle.here.from + q, part(all, i, j->used),
                  ready);
    j->used += j->nfrom;
}

static void go_out(struct job *j)
{
    stages_next(&j->stages);
    blocks_exchange(&(struct turns){range_size(j->circle.here), j, out_count,
                                    out_hear, out_tell});
    take(j, j->circle.me, stages_await(&j->stages));
}

void plan_alltoall_leaders(struct plan *p, const struct plan_shape *s)
{
    if (groups_of(s).depth == 0) {
        plan_alltoall_hierarchical(p, s);
        return;
    }
    struct job j = {
        .plan = p,
        .stages = {p, 0, 0, PLAN_START},
        .circle = circle_of(s),
    };
    const int g = range_size(j.circle.here);
    j.distances = share(&j, j.circle.me, g);
    j.nto = length(blocks_to(&j, j.distances));
    j.nfrom = length(blocks_from(&j, j.distances));
    j.packed = g * j.nto;
    j.heard = j.used = 2 * j.packed;
    plan_init(p, s->nranks, 0);
    go_in(&j);
    go_across(&j);
    go_out(&j);
    p->nslots = j.used;
}
