/* SPDX-License-Identifier: MIT */
/* Long vectors on a machine of several packages, NUMA nodes or last caches:
 * every rank carries a slice across, and its group has the rest near.
 *
 *                group 0                    group 1
 *             rank 0   rank 1            rank 2   rank 3
 *   in        [ 0 | 1 ][ 0 | 1 ]         [ 0 | 1 ][ 0 | 1 ]
 *                 sums of the group, a slice each
 *   area      [ 0 ]    [ 1 ]     <--->   [ 0 ]    [ 1 ]
 *                 sums of all groups, from those with the same slice
 *   out       [ 0 | 1 ][ 0 | 1 ]         [ 0 | 1 ][ 0 | 1 ]
 *
 *   bytes     of S in q ranks of each of G groups, between groups: allreduce
 *             G (G - 1) S instead of 2 q (G - 1) S by slices of all ranks;
 *             broadcast and allgather (G - 1) S instead of q (G - 1) S
 *   order     within a group by place, then by group, always where the prices
 *             of levels.h say so: results do not depend on what is measured
 *
 * Sums of a group pass through the segment, a block of a slice at a time. In
 * place, too: what of a vector is written was read before, by the same rank.
 */
#include "node/large.h"
#include "node/lines.h"

enum { BLOCK, SUMS, END };

static int where(const struct node_place *p, enum node_span span)
{
    return span == SPAN_PACKAGE ? p->package
           : span == SPAN_NUMA  ? p->numa
                                : p->cache;
}

/* Whether two ranks have such a place, and all around it, in common. */
static bool together(const struct node_place *a, const struct node_place *b,
                     enum node_span span)
{
    for (enum node_span s = span; s < SPAN_MACHINE; s++)
        if (where(a, s) != where(b, s))
            return false;
    return true;
}

/* Groups of ranks that share such a place, if all have as many. */
static bool group(struct node *n, const struct node_place places[],
                  enum node_span span)
{
    struct node_near *near = &n->near;
    int *const of = near->place_of, ngroups = 0, first = 0;
    for (int i = 0; i < n->n; i++) {
        if (where(&places[i], span) < 0)
            return false;
        first += together(&places[0], &places[i], span);
    }
    if (first < 2 || first == n->n || n->n % first)
        return false;
    for (int i = 0; i < n->n; i++)
        of[i] = -1;
    for (int i = 0; i < n->n; i++) {
        int g = 0, index = 0;
        while (g < ngroups
               && !together(&places[of[g * first]], &places[i], span))
            g++;
        if (g == n->n / first)
            return false;
        ngroups += g == ngroups;
        while (index < first && of[g * first + index] >= 0)
            index++;
        if (index == first)
            return false;
        of[g * first + index] = i;
        if (i == n->me) {
            near->group = g;
            near->index = index;
        }
    }
    near->size = first;
    near->price = node_line_price[span];
    near->across = node_line_price[span + 1];
    near->ngroups = ngroups;
    return true;
}

void near_group(struct node *n, const struct node_place places[])
{
    for (int span = SPAN_PACKAGE; span >= SPAN_CACHE; span--)
        if (group(n, places, (enum node_span)span))
            return;
}

/* Lines that a rank waits for, by price, in n-ths of a vector's: of all inputs
 * its slice of one n-th; or a slice of one q-th of what is near, and of the
 * groups' sums. An allreduce writes as many. */
static bool sums_pay(const struct node *n)
{
    const struct node_near *g = &n->near;
    const int q = g->size, far = n->n - q;
    const int times = n->call.kind == ALLREDUCE ? 2 : 1;
    const int flat = times * (q * g->price + far * g->across);
    const int sums = g->ngroups * (g->price + (g->ngroups - 1) * g->across);
    return times * n->n * g->price + sums < flat;
}

bool near_can(const struct node *n)
{
    const struct node_call *c = &n->call;
    if (!n->near.ngroups || c->parts || c->whole || c->apart)
        return false;
    return kind_reduces(c->kind)
               ? !c->flat && !op_narrow(c->dtype) && sums_pay(n)
               : c->kind == BROADCAST || c->kind == ALLGATHER;
}

static int member(const struct node *n, int group, int index)
{
    return n->near.place_of[group * n->near.size + index];
}

/* Of a vector, or of a part for each rank, what the ranks with an index do. */
static struct large_share slice(const struct node *n, int index)
{
    const struct node_call *c = &n->call;
    const size_t line = 64 / c->elem_bytes, size = (size_t)n->near.size;
    const size_t each = ((c->count + size - 1) / size + line - 1) / line * line;
    const size_t first = each * (size_t)index;
    if (c->kind == REDUCE_SCATTER) /* whole parts */
        return (struct large_share){0, c->count};
    if (first >= c->count)
        return (struct large_share){0, 0};
    return (struct large_share){
        first, c->count - first < each ? c->count - first : each};
}

/* Of a rank's area: what of how many parts lies there at a time. */
static size_t parts(const struct node *n)
{
    return n->call.kind == REDUCE_SCATTER ? (size_t)n->near.ngroups : 1;
}

static size_t block_count(const struct node *n)
{
    return NODE_STAGE_BYTES / n->call.elem_bytes / parts(n);
}

static size_t nblocks(const struct node *n)
{
    const size_t each = block_count(n);
    return kind_reduces(n->call.kind) ? (slice(n, 0).count + each - 1) / each
                                      : 0;
}

/* Block b of this rank's slice. */
static struct large_share block(const struct node *n, size_t b)
{
    const struct large_share all = slice(n, n->near.index);
    const size_t each = block_count(n), first = b * each;
    const size_t left = all.count > first ? all.count - first : 0;
    return (struct large_share){all.first + first, left < each ? left : each};
}

static void count_bytes(struct node *n, int nsrc, int ndst, size_t bytes)
{
    n->bytes_read += (size_t)nsrc * bytes;
    n->bytes_written += (size_t)ndst * bytes;
}

static char *area(const struct node *n, int place, size_t b)
{
    return (char *)n->peers[place].region->in[b % 2];
}

/* Of the group's vectors, block b of this rank's slice: of a part for each rank
 * those of the ranks with its index. */
static void sum_near(struct node *n, size_t b)
{
    const struct node_call *c = &n->call;
    const struct large_share s = block(n, b);
    const size_t bytes = s.count * c->elem_bytes;
    for (size_t p = 0; p < parts(n) && s.count; p++) {
        const size_t part =
            parts(n) > 1 ? large_part_at(c, member(n, (int)p, n->near.index))
                         : 0;
        void *dst[] = {area(n, n->me, b) + p * bytes};
        for (int i = 0; i < n->near.size; i++)
            n->src[i] = n->ins[member(n, n->near.group, i)].address
                        + (part + s.first) * c->elem_bytes;
        op_run(c->combine, dst, 1, n->src, n->near.size, s.count, 1, false);
        count_bytes(n, n->near.size, 1, bytes);
    }
}

/* Puts what n->src has where the group wants it, `at` bytes into its results.
 */
static void spread(struct node *n, int nsrc, size_t at, size_t count)
{
    const struct node_call *c = &n->call;
    const size_t bytes = count * c->elem_bytes;
    int ndst = 0;
    for (int i = 0; i < n->near.size; i++) {
        const int place = member(n, n->near.group, i);
        if (!large_writes(c, place)
            || (c->kind == REDUCE_SCATTER && place != n->me))
            continue;
        char *const to = n->outs[place].address + at;
        if (to != n->src[0])
            n->dst[ndst++] = to;
    }
    if (!ndst || !count)
        return;
    if (c->combine)
        op_run(c->combine, n->dst, ndst, n->src, nsrc, count, n->n,
               n->stage_stream);
    else
        op_copy(n->dst, ndst, n->src[0], bytes, n->stage_stream);
    count_bytes(n, nsrc, ndst, bytes);
}

/* Block b of this rank's slice of the result, for its group. */
static void sum_far(struct node *n, size_t b)
{
    const struct large_share s = block(n, b);
    const size_t elem = n->call.elem_bytes;
    const size_t part = parts(n) > 1 ? (size_t)n->near.group : 0;
    for (int g = 0; g < n->near.ngroups; g++)
        n->src[g] =
            area(n, member(n, g, n->near.index), b) + part * s.count * elem;
    spread(n, n->near.ngroups, s.first * elem, s.count);
}

static void copy_from(struct node *n, int place, size_t part)
{
    const struct large_share s = slice(n, n->near.index);
    const size_t elem = n->call.elem_bytes;
    n->src[0] = n->ins[place].address + s.first * elem;
    spread(n, 1, (part + s.first) * elem, s.count);
}

/* Block b of the slice is summed near; after the last block: all is done. */
static uint32_t block_step(size_t b)
{
    return LARGE_STAGE + 1 + (uint32_t)b;
}

/* Those with the same slice. */
static coll_status await_others(struct node *n, uint32_t step)
{
    for (; n->at < n->near.ngroups; n->at++) {
        const int place = member(n, n->at, n->near.index);
        if (place != n->me && !large_is_at(n, place, step)) {
            n->awaited = place;
            return COLL_IN_PROGRESS;
        }
    }
    n->at = 0;
    return COLL_OK;
}

void near_begin(struct node *n)
{
    const struct node_call *c = &n->call;
    n->stage_stream = large_bytes(n) >= n->cache_bytes;
    n->block = 0;
    n->at = 0;
    n->level = BLOCK;
    if (c->kind == BROADCAST)
        copy_from(n, c->root, 0);
    for (int k = 0; k < n->n && c->kind == ALLGATHER; k++) {
        const int from = (n->me + k) % n->n; /* not all at the same one */
        copy_from(n, from, large_part_at(c, from));
    }
}

/* A rank may use an area again as soon as it has awaited those who read it for
 * the block in between: they began that one when they had done with this. */
coll_status near_step(struct node *n)
{
    const size_t last = nblocks(n);
    for (; n->level != END; n->block++) {
        const size_t b = n->block;
        if (n->level == BLOCK) {
            if (b < last)
                sum_near(n, b);
            large_mark(n, block_step(b));
            n->level = b < last ? SUMS : END;
        }
        if (n->level == END)
            break;
        const coll_status status = await_others(n, block_step(b));
        if (status != COLL_OK)
            return status;
        sum_far(n, b);
        n->level = BLOCK;
    }
    return large_await(n, block_step(last));
}
