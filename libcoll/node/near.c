/* SPDX-License-Identifier: MIT */
/* Long vectors by groups within groups, see nest.h: every rank carries a slice
 * up, and ever smaller pieces of it, so that least crosses where it is dearest.
 *
 *             package 0                       package 1
 *             cache 0         cache 1         cache 2         cache 3
 *   ranks     0       1       2       3       4       5       6       7
 *   in        [0 1 2 3] ...
 *             sums of the cache, a slice each: level 0
 *   area      [0 1]   [2 3]   [0 1]   [2 3]   [0 1]   [2 3]   [0 1]   [2 3]
 *             sums of the package, a piece each: level 1
 *   area      [0]     [2]     [1]     [3]     [0]     [2]     [1]     [3]
 *             sums of all, from who has the same piece: level 2
 *   out       [0   2  ]       [  1   3]       [0   2  ]       [  1   3]
 *             and what the other cache has: level 1
 *   out       [0 1 2 3] ...
 *
 * Who makes or fetches a piece of the result writes it to the ranks of its own
 * level 0. Those of the next group take it from the vector of the one with the
 * same slice, so nothing is held in between.
 *
 *   bytes     of S that cross within each group of a level, between the G of
 *             the level below; slices of all ranks: q times as much on the last
 *             level, where these have q ranks each
 *               reduce_scatter                       (G - 1) S
 *               reduce                               (G - 1) S, and to the root
 *                                                    on inner levels at most S
 *               broadcast, allgather                 (G - 1) S
 *               allreduce                          2 (G - 1) S
 *   order     of sums: in a group of level 0 by place, then of level 1 by
 *             group, and so on. Places and prices say which levels there are,
 *             so results do not depend on what is measured but whether long
 *             registered memory is shared (pages.h)
 *
 * All goes block by block of a rank's slice, so that a block stays in the cache
 * on its way. In place, too: what of a vector is written was read before, by
 * the same rank or by one whose sums the writer waited for.
 */
#include "node/lines.h"
#include "node/near.h"

bool near_can(const struct node *n)
{
    const struct node_call *c = &n->call;
    if (!near_nest(n)->depth || c->parts || c->whole || c->apart)
        return false;
    return !kind_reduces(c->kind) || (!c->flat && !op_narrow(c->dtype));
}

/* Steps of a block, in this order: a sum on each level, of which the last makes
 * the result, or, of copies, one that fetches a piece of it; and down again,
 * level by level, what others made or fetched. */
static int first_step(const struct node *n)
{
    return kind_reduces(n->call.kind) ? 0 : near_top(n);
}

static int last_step(const struct node *n)
{
    return near_top(n) + nest_last_spread(near_nest(n), n->call.kind);
}

static int level_of(const struct node *n, int step)
{
    return step <= near_top(n) ? step : last_step(n) - step + 1;
}

static void count_bytes(struct node *n, int nsrc, int ndst, size_t bytes)
{
    n->bytes_read += (size_t)nsrc * bytes;
    n->bytes_written += (size_t)ndst * bytes;
}

/* Past the caches where nobody reads it in a later step. */
static bool streams(const struct node *n, int step)
{
    return n->stage_stream && step == last_step(n);
}

/* Sets n->dst to where what lies `there` is wanted, if it is not the same: so
 * many bytes from the beginning of results. Returns how many. */
static int wanted_at(struct node *n, size_t at, const void *there)
{
    const struct node_call *c = &n->call;
    const bool one = c->kind == REDUCE || c->kind == REDUCE_SCATTER;
    const int ranks = one ? 1 : near_nest(n)->size[0];
    int ndst = 0;
    for (int i = 0; i < ranks; i++) {
        int place = c->kind == REDUCE ? c->root : n->me;
        if (!one)
            place = near_sibling(n, 0, i);
        char *const to = n->outs[place].address + at;
        if (to != there)
            n->dst[ndst++] = to;
    }
    return ndst;
}

/* Where part k of this rank's piece s lies that a sibling has, or has summed on
 * the level below. */
static const char *summand(const struct node *n, int level, int i, size_t k,
                           struct large_share s, size_t b)
{
    const struct node_call *c = &n->call;
    const int from = near_sibling(n, level, i);
    if (level == 0)
        return n->ins[from].address
               + (near_part_at(n, 0, n->me, k) + s.first) * c->elem_bytes;
    const struct large_share below = near_piece(n, level - 1, n->me, b);
    size_t at = s.first - below.first;
    if (kind_has_parts(c->kind))
        at = s.count
             * (k * (size_t)near_nest(n)->size[level]
                + (size_t)near_digit(n, level));
    return near_area(n, level - 1, from, b) + at * c->elem_bytes;
}

/* This rank's piece of the sum of those that it meets on a level; the last one
 * makes the result, of a reduce in the root's group. */
static void sum(struct node *n, int level, size_t b)
{
    const struct node_call *c = &n->call;
    const int nsrc = near_nest(n)->size[level];
    const bool last = level == near_top(n);
    const struct large_share s = near_piece(n, level, n->me, b);
    const size_t bytes = s.count * c->elem_bytes;
    if (!s.count || (last && c->kind == REDUCE && !near_has_root(n, level)))
        return;
    for (size_t k = 0; k < near_parts(n, level); k++) {
        int ndst = 1;
        for (int i = 0; i < nsrc; i++)
            n->src[i] = summand(n, level, i, k, s, b);
        if (last)
            ndst = wanted_at(n, s.first * c->elem_bytes, NULL);
        else
            n->dst[0] = near_area(n, level, n->me, b) + k * bytes;
        op_run(c->combine, n->dst, ndst, n->src, nsrc, s.count, last ? n->n : 1,
               last && streams(n, level));
        count_bytes(n, nsrc, ndst, bytes);
    }
}

/* Where part k of a rank's piece is from the beginning on, `first` bytes from
 * that of the part. */
static const char *origin_of(const struct node *n, int level, int place,
                             size_t k, size_t first)
{
    const int from = n->call.kind == BROADCAST
                         ? n->call.root
                         : near_part_of(n, level, place, k);
    return n->ins[from].address + first;
}

/* Copies a rank's piece, from where it is from the beginning or from that
 * rank's result, for this one's group. */
static void copy(struct node *n, int level, int place, bool origin, size_t b,
                 bool stream)
{
    const size_t elem = n->call.elem_bytes, parts = near_parts(n, level);
    const struct large_share s = near_piece(n, level, place, b);
    const size_t bytes = s.count * elem, first = s.first * elem;
    for (size_t i = 0; i < parts && s.count; i++) {
        const size_t k = (i + (size_t)n->me) % parts; /* not all at one rank */
        const size_t at = near_part_at(n, level, place, k) * elem + first;
        n->src[0] = origin ? origin_of(n, level, place, k, first)
                           : n->outs[place].address + at;
        const int ndst = wanted_at(n, at, n->src[0]);
        if (!ndst)
            continue;
        op_copy(n->dst, ndst, n->src[0], bytes, stream);
        count_bytes(n, 1, ndst, bytes);
    }
}

/* What the others have that this rank meets on a level. What the root's group
 * has of the root need not come back from another one. */
static void spread(struct node *n, int level, size_t b, bool stream)
{
    const bool origin = n->call.kind == BROADCAST && near_has_root(n, level);
    const int size = near_nest(n)->size[level], mine = near_digit(n, level);
    for (int i = 1; i < size; i++)
        copy(n, level, near_sibling(n, level, (mine + i) % size), origin, b,
             stream);
}

static void run_step(struct node *n, int step, size_t b)
{
    const int top = near_top(n);
    if (step > top)
        spread(n, level_of(n, step), b, streams(n, step));
    else if (kind_reduces(n->call.kind))
        sum(n, step, b);
    else
        copy(n, top - 1, n->me, true, b, streams(n, step));
}

/* How far a rank is that has done a step of block b. */
static uint32_t mark(const struct node *n, int step, size_t b)
{
    const int first = first_step(n), all = last_step(n) - first + 1;
    return LARGE_STAGE + 1 + (uint32_t)b * (uint32_t)all
           + (uint32_t)(step - first);
}

/* Those whom this rank meets in a step: until they have done the one before. */
static coll_status await_siblings(struct node *n, int step, size_t b)
{
    const int level = level_of(n, step);
    if (step == first_step(n))
        return COLL_OK;
    for (; n->at < near_nest(n)->size[level]; n->at++) {
        const int place = near_sibling(n, level, n->at);
        if (place != n->me && !large_is_at(n, place, mark(n, step - 1, b))) {
            n->awaited = place;
            return COLL_IN_PROGRESS;
        }
    }
    return COLL_OK;
}

void near_begin(struct node *n)
{
    n->stage_stream = large_bytes(n) >= n->cache_bytes;
    n->block = 0;
    n->at = 0;
    n->level = first_step(n);
}

/* A rank may use an area again as soon as it has awaited those who read it for
 * the block in between: they began that one when they had done with this. */
coll_status near_step(struct node *n)
{
    const size_t blocks = near_blocks(n);
    const int first = first_step(n), last = last_step(n);
    for (; n->block < blocks; n->block++, n->level = first)
        for (; n->level <= last; n->level++) {
            const coll_status status = await_siblings(n, n->level, n->block);
            if (status != COLL_OK)
                return status;
            run_step(n, n->level, n->block);
            large_mark(n, mark(n, n->level, n->block));
        }
    return large_await(n, mark(n, last, blocks - 1));
}
