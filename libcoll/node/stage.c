/* SPDX-License-Identifier: MIT */
/* Long vectors that ranks cannot reach: through the segment, block by block.
 *
 * In block b each rank copies in what others need of its vector, combines its
 * share of the block, and copies out what others combined for it. There are two
 * areas in turn, so that copying out block b - 1 overlaps with others' work on
 * block b; both stay in the second-level cache.
 *
 *     in(0) reduce(0)   in(1) reduce(1) out(0)   in(2) reduce(2) out(1)  ...
 *
 * Where nothing is combined, what was copied in can be copied out at once.
 * An area is free for block b once all have copied block b - 2 out.
 */
#include "node/large.h"
#include "node/lines.h"

enum { FREE, IN, REDUCED };

/* The steps of block b as all ranks count them. */
static uint32_t in_step(size_t b)
{
    return LARGE_STAGE + 3 * (uint32_t)b + 1;
}

static uint32_t reduced_step(size_t b)
{
    return in_step(b) + 1;
}

static uint32_t out_step(size_t b)
{
    return in_step(b) + 5;
}

static bool gathers(const struct node_call *c)
{
    return c->kind == GATHER || c->kind == ALLGATHER;
}

/* Elements of a block. With parts, the block is so much of each part. */
static size_t block_count(const struct node *n)
{
    const struct node_call *c = &n->call;
    const size_t parts = large_in_parts(c) ? (size_t)n->n : 1;
    const size_t count = NODE_STAGE_BYTES / c->elem_bytes / parts;
    return count & ~(size_t)63 ? count & ~(size_t)63 : count;
}

static size_t nblocks(const struct node *n)
{
    const size_t each = block_count(n);
    return (n->call.count + each - 1) / each;
}

static struct large_share block(const struct node *n, size_t b)
{
    const size_t each = block_count(n), first = b * each;
    const size_t left = n->call.count - first;
    return (struct large_share){first, left < each ? left : each};
}

/* Whether this rank's own vector is stored past the caches. */
static bool streams(const struct node *n)
{
    return n->call.count * n->call.elem_bytes >= n->cache_bytes;
}

static void copy(struct node *n, void *dst, const void *src, size_t bytes,
                 bool stream)
{
    op_copy(&dst, 1, src, bytes, stream);
    n->bytes_read += bytes;
    n->bytes_written += bytes;
}

/* All of this rank's block, which others take as it is, and where it wants it
 * itself: at once if both are stored to alike, so that it is read once. */
static void copy_in_whole(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share all = block(n, b);
    const size_t elem = c->elem_bytes;
    const size_t count =
        gathers(c) ? large_share(c, n->me, n->n, all.first, all.count).count
                   : all.count;
    const size_t at = gathers(c) ? large_part_at(c, n->me) : 0;
    if (!count) /* then in may be NULL */
        return;
    const char *const in = (const char *)c->in + all.first * elem;
    char *const own = (char *)c->out + (at + all.first) * elem;
    void *dst[] = {n->peers[n->me].region->in[b % 2], own};
    const bool theirs = c->kind != GATHER || n->me != c->root;
    const bool mine = large_writes(c, n->me) && own != in;
    if (theirs && mine && n->stage_stream == streams(n)) {
        op_copy(dst, 2, in, count * elem, n->stage_stream);
        n->bytes_read += count * elem;
        n->bytes_written += 2 * count * elem;
        return;
    }
    if (theirs)
        copy(n, dst[0], in, count * elem, n->stage_stream);
    if (mine)
        copy(n, own, in, count * elem, streams(n));
}

/* What others need of this rank's vector. */
static void copy_in(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share all = block(n, b);
    const size_t elem = c->elem_bytes;
    const char *in = c->in;
    unsigned char *area = n->peers[n->me].region->in[b % 2];
    if (!large_reads(c, n->me))
        return;
    if (c->kind == BROADCAST || gathers(c)) {
        copy_in_whole(n, b);
        return;
    }
    for (int i = 0; i < n->n; i++) {
        const struct large_share s =
            large_share(c, i, n->n, all.first, all.count);
        const size_t part = large_in_parts(c) ? (size_t)i : 0;
        const size_t part_at = large_in_parts(c) ? large_part_at(c, i) : 0;
        if (i != n->me && s.count)
            copy(n, area + (part * all.count + s.first - all.first) * elem,
                 in + (part_at + s.first) * elem, s.count * elem,
                 n->stage_stream);
    }
}

/* This rank's share of the block, into its own vector where it wants it, and
 * into the segment where others do. */
static void reduce(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share all = block(n, b);
    const struct large_share s =
        large_share(c, n->me, n->n, all.first, all.count);
    const size_t elem = c->elem_bytes;
    const size_t part = large_in_parts(c) ? (size_t)n->me : 0;
    const size_t part_at = large_in_parts(c) ? large_part_at(c, n->me) : 0;
    const size_t bytes = s.count * elem;
    const bool mine = large_writes(c, n->me);
    const bool theirs = c->kind == ALLREDUCE || (c->kind == REDUCE && !mine);
    void *const own = (char *)c->out + s.first * elem;
    void *const area =
        n->peers[n->me].region->out[b % 2] + (s.first - all.first) * elem;
    int ndst = 0;
    if (!s.count)
        return;
    for (int i = 0; i < n->n; i++)
        n->src[i] = i == n->me
                        ? (const char *)c->in + (part_at + s.first) * elem
                        : (const char *)n->peers[i].region->in[b % 2]
                              + (part * all.count + s.first - all.first) * elem;
    /* Apart where the two are not stored to alike: the result then comes to lie
     * near first, in the segment if that is stored to as usual. */
    const bool apart = n->stage_stream || streams(n);
    void *const near = theirs && !n->stage_stream ? area : (void *)n->scratch;
    if (apart)
        n->dst[ndst++] = near;
    if (mine && !apart)
        n->dst[ndst++] = own;
    if (theirs && !apart)
        n->dst[ndst++] = area;
    op_run(c->combine, n->dst, ndst, n->src, n->n, s.count, n->n, false);
    n->bytes_read += (size_t)n->n * bytes;
    n->bytes_written += (size_t)ndst * bytes;
    if (mine && apart)
        copy(n, own, near, bytes, streams(n));
    if (theirs && apart && near != area)
        copy(n, area, near, bytes, n->stage_stream);
}

/* Of vectors with a part for each rank, that for this one. */
static void copy_parts_out(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share all = block(n, b);
    const size_t elem = c->elem_bytes, first = all.first * elem;
    const size_t stride = all.count * elem, mine = (size_t)n->me;
    for (int i = 0; i < n->n; i++) {
        const bool here = i == n->me, pairs = c->kind == ALLTOALL;
        const size_t part = pairs ? large_got(c, i) : large_part(c, n->me);
        const size_t left = part > all.first ? part - all.first : 0;
        const size_t bytes = (left < all.count ? left : all.count) * elem;
        char *const out =
            (char *)c->out + first + (pairs ? large_got_at(c, i) : 0) * elem;
        const char *const from =
            here ? (const char *)c->in + first + large_part_at(c, i) * elem
                 : (const char *)n->peers[i].region->in[b % 2] + mine * stride;
        if (large_reads(c, i) && bytes && out != from)
            copy(n, out, from, bytes, streams(n));
    }
}

/* What others have for this rank. */
static void copy_out(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share all = block(n, b);
    const size_t elem = c->elem_bytes;
    const bool stream = streams(n);
    char *out = c->out;
    if (!large_writes(c, n->me) || c->kind == REDUCE_SCATTER)
        return;
    if (large_in_parts(c)) {
        copy_parts_out(n, b);
        return;
    }
    for (int i = 0; i < n->n; i++) {
        const struct node_region *r = n->peers[i].region;
        const struct large_share s =
            large_share(c, i, n->n, all.first, all.count);
        const size_t place = gathers(c) ? large_part_at(c, i) : 0;
        const bool whole = gathers(c) || (c->kind == BROADCAST && i == c->root);
        const size_t bytes = (gathers(c) ? s.count : all.count) * elem;
        if (!bytes || (whole && i == n->me))
            continue;
        if (whole) {
            copy(n, out + (place + all.first) * elem, r->in[b % 2], bytes,
                 stream);
        } else if (c->kind != BROADCAST && i != n->me && s.count) {
            copy(n, out + s.first * elem,
                 r->out[b % 2] + (s.first - all.first) * elem, s.count * elem,
                 stream);
        }
    }
}

void stage_begin(struct node *n)
{
    n->block = 0;
    n->at = 0;
    n->level = FREE;
}

coll_status stage_step(struct node *n)
{
    const size_t last = nblocks(n);
    const bool sums = kind_reduces(n->call.kind);
    for (;;) {
        const size_t b = n->block;
        coll_status status;
        if (n->level == FREE) {
            if (b >= 2 && b < last
                && (status = large_await(n, out_step(b - 2))) != COLL_OK)
                return status;
            if (b < last) {
                copy_in(n, b);
                large_mark(n, in_step(b));
            }
            n->level = IN;
        }
        if (n->level == IN) {
            if (b < last && sums) {
                if ((status = large_await(n, in_step(b))) != COLL_OK)
                    return status;
                reduce(n, b);
                large_mark(n, reduced_step(b));
            }
            n->at = 0;
            n->level = REDUCED;
        }
        if (b > 0) {
            const uint32_t ready = sums ? reduced_step(b - 1) : in_step(b - 1);
            if ((status = large_await(n, ready)) != COLL_OK)
                return status;
            copy_out(n, b - 1);
            large_mark(n, out_step(b - 1));
        }
        if (b == last)
            return COLL_OK;
        n->block++;
        n->at = 0;
        n->level = FREE;
    }
}
