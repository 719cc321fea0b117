/* SPDX-License-Identifier: MIT */
/* Long vectors of gather, scatter and alltoall: each byte is moved once, from
 * where it is to where it is wanted, by a rank that has one of the two.
 *
 *   gather    each rank writes its part into the root's vector, or the root
 *             reads all
 *   scatter   each rank reads its part
 *   alltoall  each rank reads its part of all vectors, or writes into all; in
 *             place, both ranks of a pair swap half of what they have for each
 *             other
 *
 * A root in place has nothing to move of its own, so it takes its share of what
 * the others have to; and a smaller one where the others' is dear, as they move
 * it through the system, and it copies its own.
 */
#include <string.h>

#include "node/foreign.h"
#include "node/large.h"

bool large_moves(const struct node_call *c)
{
    return c->kind == GATHER || c->kind == SCATTER || c->kind == ALLTOALL;
}

/* Where the part that `from` has for `to` begins in the one's vector, */
static size_t in_at(const struct node *n, int from, int to)
{
    const struct node_call *c = &n->call;
    if (!large_in_parts(c))
        return 0;
    return large_own_parts(c) && from != n->me ? large_parts_of(n, from).at
                                               : large_part_at(c, to);
}

/* and in the other's. */
static size_t out_at(const struct node *n, int from, int to)
{
    const struct node_call *c = &n->call;
    if (!large_out_parts(c))
        return 0;
    if (large_own_parts(c) && to != n->me)
        return large_parts_of(n, to).at;
    return c->kind == ALLTOALL ? large_got_at(c, from) : large_part_at(c, from);
}

/* So many elements of [first, first + count) that part has. */
static size_t within(const struct node *n, int from, int to,
                     struct large_share what)
{
    const struct node_call *c = &n->call;
    if (!c->parts)
        return what.count;
    const size_t all = c->kind == ALLTOALL && to == n->me ? large_got(c, from)
                       : c->kind == GATHER                ? large_part(c, from)
                                                          : large_part(c, to);
    const size_t left = what.first < all ? all - what.first : 0;
    return left < what.count ? left : what.count;
}

/* Elements [first, first + count) of the part that `from` has for `to`, one of
 * which is this rank, as far as it has them. */
static coll_status move(struct node *n, int from, int to,
                        struct large_share what, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes, bytes = within(n, from, to, what) * elem;
    const size_t in = in_at(n, from, to), out = out_at(n, from, to);
    char *const src = n->ins[from].address + (in + what.first) * elem;
    char *const dst = n->outs[to].address + (out + what.first) * elem;
    if (!bytes || (from == to && src == dst))
        return COLL_OK;
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    if (n->ins[from].foreign)
        return foreign_read(n->peers[from].pid, dst, src, bytes);
    if (n->outs[to].foreign)
        return foreign_write(n->peers[to].pid, src, dst, bytes);
    op_copy(&(void *){dst}, 1, src, bytes, stream);
    return COLL_OK;
}

/* The first so many elements of a part, up to a cache line. */
static size_t cut(const struct node_call *c, size_t count)
{
    const size_t line = 64 / c->elem_bytes;
    const size_t up = (count + line - 1) / line * line;
    return up < c->count ? up : c->count;
}

/* What the system moves between processes takes about twice as long as what a
 * rank copies, and is not worth a call for less than a page. */
enum { FOREIGN_COST = 2, FOREIGN_LEAST = 4096 };

size_t large_own_share(const struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t shares = (size_t)n->n * (n->in_place ? 1 : FOREIGN_COST);
    const size_t left = c->count / shares;
    if (c->parts)
        return c->count;
    return n->in_place || (n->foreign && left * c->elem_bytes >= FOREIGN_LEAST)
               ? cut(c, left * (shares - 1) + 1)
               : c->count;
}

/* Gather and scatter: what a rank moves of its part, and the root of its own
 * and of others'. */
static coll_status move_with_root(struct node *n, bool stream)
{
    const struct node_call *c = &n->call;
    const bool to = c->kind == GATHER;
    const size_t own = large_own_share(n);
    if (n->me != c->root)
        return move(n, to ? n->me : c->root, to ? c->root : n->me,
                    (struct large_share){0, own}, stream);
    coll_status status =
        move(n, n->me, n->me, (struct large_share){0, c->count}, stream);
    for (int k = 1; k < n->n && status == COLL_OK; k++) {
        const int i = (n->me + k) % n->n;
        status = move(n, to ? i : n->me, to ? n->me : i,
                      (struct large_share){own, c->count - own}, stream);
    }
    return status;
}

/* This rank's part of all vectors, or what it has for all. */
static coll_status move_all(struct node *n, bool whole, bool stream)
{
    const struct large_share part = {0, n->call.count};
    coll_status status = COLL_OK;
    for (int k = 0; k < n->n && status == COLL_OK; k++) {
        const int i = (n->me + k) % n->n; /* not all at the same one */
        status = move(n, whole ? i : n->me, whole ? n->me : i, part, stream);
    }
    return status;
}

/* --- alltoall in place -----------------------------------------------------
 */

/* Copies from[k] to to[k], where to[0] may be from[1] and to[1] from[0]. */
static void trade(char *const to[2], char *const from[2], size_t bytes)
{
    enum { AT_ONCE = 64 };
    unsigned char x[AT_ONCE], y[AT_ONCE];
    size_t at = 0;
    for (; at + AT_ONCE <= bytes; at += AT_ONCE) {
        memcpy(x, from[0] + at, AT_ONCE);
        memcpy(y, from[1] + at, AT_ONCE);
        memcpy(to[0] + at, x, AT_ONCE);
        memcpy(to[1] + at, y, AT_ONCE);
    }
    memcpy(x, from[0] + at, bytes - at);
    memcpy(y, from[1] + at, bytes - at);
    memcpy(to[0] + at, x, bytes - at);
    memcpy(to[1] + at, y, bytes - at);
}

/* The same with another process: its piece is held aside meanwhile. */
static coll_status trade_foreign(struct node *n, int place, char *const to[2],
                                 char *const from[2], size_t bytes)
{
    const struct node_peer *p = &n->peers[place];
    coll_status status = COLL_OK;
    size_t piece;
    for (size_t at = 0; at < bytes && status == COLL_OK; at += piece) {
        piece = bytes - at < n->piece_bytes ? bytes - at : n->piece_bytes;
        if (n->ins[place].foreign)
            status = foreign_read(p->pid, n->scratch, from[0] + at, piece);
        else
            memcpy(n->scratch, from[0] + at, piece);
        if (status == COLL_OK && n->outs[place].foreign)
            status = foreign_write(p->pid, from[1] + at, to[1] + at, piece);
        else if (status == COLL_OK)
            memcpy(to[1] + at, from[1] + at, piece);
        memcpy(to[0] + at, n->scratch, piece);
    }
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    return status;
}

/* This rank's half of what it and another have for each other. */
static coll_status exchange(struct node *n, int place)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes, half = cut(c, c->count / 2);
    const bool first = n->me < place;
    const size_t at = first ? 0 : half * elem;
    const size_t bytes = (first ? half : c->count - half) * elem;
    const size_t mine = large_part_at(c, place) * elem + at;
    const size_t its = large_part_at(c, n->me) * elem + at;
    char *const from[2] = {n->ins[place].address + its,
                           n->ins[n->me].address + mine};
    char *const to[2] = {n->outs[n->me].address + mine,
                         n->outs[place].address + its};
    n->bytes_read += 2 * bytes;
    n->bytes_written += 2 * bytes;
    if (n->ins[place].foreign || n->outs[place].foreign)
        return trade_foreign(n, place, to, from, bytes);
    trade(to, from, bytes);
    return COLL_OK;
}

static coll_status exchange_all(struct node *n)
{
    const struct large_share part = {0, n->call.count};
    coll_status status = move(n, n->me, n->me, part, false);
    for (int k = 1; k < n->n && status == COLL_OK; k++)
        status = exchange(n, (n->me + k) % n->n);
    return status;
}

/* All do but where parts come and go between the root and each other rank. */
bool large_touches(const struct node *n, int place)
{
    const struct node_call *c = &n->call;
    const bool others_move = c->kind == SCATTER || !large_whole(n);
    if (c->kind != GATHER && c->kind != SCATTER)
        return true;
    return (n->me == c->root && others_move)
           || (place == c->root
               && (large_own_share(n) < c->count || !others_move));
}

coll_status large_move(struct node *n, bool whole, bool stream)
{
    const struct node_call *c = &n->call;
    if (c->kind == ALLTOALL)
        return n->in_place ? exchange_all(n)
                           : move_all(n, whole || c->parts, stream);
    if (c->kind == SCATTER || !whole)
        return move_with_root(n, stream);
    return n->me == c->root ? move_all(n, true, stream) : COLL_OK;
}
