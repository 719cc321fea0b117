/* SPDX-License-Identifier: MIT */
/* Long vectors: each rank combines its slice of all inputs and writes it into
 * all outputs.
 *
 *   time    two exchanges of a cache line, and the traffic
 *   traffic allreduce of S bytes on vectors of coll_mem_alloc(): S read and S
 *           written by each rank, the least there is
 *   order   by place, so all outputs hold the same bits; f16, bf16 and f8 are
 *           rounded once
 *   from    Peng and others, "Optimizing MPI collectives on shared memory
 *           multi-cores", SC 2023, has the count of traffic
 *
 * All publish where their vectors lie, and wait for all. Vectors in a heap are
 * mapped, see heap.h. Others are read and written through the system, see
 * foreign.h, a chunk at a time so that it stays in the cache; where that is
 * denied, through memory of the segment, see stage.c. Then all wait for all,
 * as nobody may return before the others have done with its vectors.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "node/foreign.h"
#include "node/large.h"
#include "node/lines.h"

enum { GATE, ENTER, AGREE, LEAVE, STAGED };

/* What a rank publishes at the start: where its two vectors are. */
struct spot {
    uint64_t block;
    uint64_t bytes;  /* of the block; 0: not in the heap. Bit 0: new to some */
    uint64_t offset; /* not in the heap: the address */
};
struct spots {
    struct spot in, out;
};
_Static_assert(sizeof(struct spots) <= NODE_LINE_DATA, "fits into a line");

bool large_reads(const struct node_call *c, int place)
{
    return c->kind != BROADCAST || place == c->root;
}

bool large_writes(const struct node_call *c, int place)
{
    return c->kind != REDUCE || place == c->root;
}

/* Equal shares, cut at cache lines. Where the result is one part for each rank
 * anyway, a rank does its own part. */
struct large_share large_share(const struct node_call *c, int place, int n,
                               size_t first, size_t count)
{
    if (c->kind == REDUCE_SCATTER || c->kind == ALLGATHER)
        return (struct large_share){first, count};
    const size_t line = 64 / c->elem_bytes;
    const size_t each = (count / (size_t)n + line) / line * line;
    const size_t begin = each * (size_t)place;
    if (begin >= count)
        return (struct large_share){first + count, 0};
    return (struct large_share){first + begin,
                                count - begin < each ? count - begin : each};
}

void large_mark(struct node *n, uint32_t step)
{
    node_mark(&n->peers[n->me].region->phase, n->number, step);
    node_ring_all(n);
    n->at = 0;
}

coll_status large_await(struct node *n, uint32_t step)
{
    const uint64_t wanted = (uint64_t)n->number << 32 | step;
    for (; n->at < n->n; n->at++) {
        struct node_line *line = &n->peers[n->at].region->phase;
        const uint64_t word =
            atomic_load_explicit(&line->word, memory_order_acquire);
        if (n->at != n->me && (int64_t)(word - wanted) < 0)
            return COLL_IN_PROGRESS;
    }
    return COLL_OK;
}

/* --- where the vectors are ------------------------------------------------- */

/* Whether peers have yet to map a block; they are taken to keep it. */
static bool announce(struct node *n, uint64_t block)
{
    uint64_t *known =
        &n->announced[(block * 0x9e3779b97f4a7c15ull) >> 60 & (NODE_VIEWS - 1)];
    if (*known == (block | 2))
        return false;
    *known = block | 2; /* offsets are whole pages, so bit 1 is free */
    return true;
}

static struct spot locate(struct node *n, const void *vector, size_t bytes)
{
    const struct heap_spot at = heap_find(vector, bytes);
    if (!at.bytes)
        return (struct spot){0, 0, (uintptr_t)vector};
    return (struct spot){at.block, at.bytes | announce(n, at.block), at.offset};
}

static size_t in_bytes(const struct node *n, const struct node_call *c)
{
    return c->count * c->elem_bytes
           * (c->kind == REDUCE_SCATTER ? (size_t)n->n : 1);
}

static size_t out_bytes(const struct node *n, const struct node_call *c)
{
    return c->count * c->elem_bytes
           * (c->kind == ALLGATHER ? (size_t)n->n : 1);
}

static void enter(struct node *n)
{
    const struct node_call *c = &n->call;
    struct node_line *line =
        &n->peers[n->me].region->entry[0][n->number % NODE_SLOTS];
    struct spots spots = {{0, 0, 0}, {0, 0, 0}};
    if (large_reads(c, n->me))
        spots.in = locate(n, c->in, in_bytes(n, c));
    if (large_writes(c, n->me))
        spots.out = locate(n, c->out, out_bytes(n, c));
    memcpy(line->data, &spots, sizeof(spots));
    node_mark(line, n->number, c->tag);
    node_ring_all(n);
}

/* A peer's block, mapped now if need be; NULL if it cannot be. */
static char *view(struct node_peer *p, uint64_t block, uint64_t bytes)
{
    if (p->same_process)
        return heap_address(block);
    for (int i = 0; i < NODE_VIEWS; i++)
        if (p->views[i].memory && p->views[i].block == block)
            return p->views[i].memory;
    struct node_view *v = &p->views[p->next_view++ % NODE_VIEWS];
    if (v->memory)
        munmap(v->memory, v->bytes);
    *v = (struct node_view){block, bytes, heap_map(&p->heap, block, bytes)};
    return v->memory;
}

/* Where a peer's vector is, seen from here. false: it should be within reach,
 * and is not. */
static bool reach(struct node *n, int place, const struct spot *s, size_t bytes,
                  struct node_place_of *where)
{
    struct node_peer *p = &n->peers[place];
    const uint64_t whole = s->bytes & ~1ull;
    *where = (struct node_place_of){(char *)(uintptr_t)s->offset,
                                    !p->same_process};
    if (!whole)
        return true;
    char *base = s->offset <= whole && bytes <= whole - s->offset
                     ? view(p, s->block, whole)
                     : NULL;
    *where = (struct node_place_of){base ? base + s->offset : NULL, false};
    return base != NULL;
}

/* What the entries of all ranks say together; equal on all ranks. */
struct summary {
    bool foreign; /* a vector is in no heap */
    bool fresh;   /* a block is to be mapped for the first time */
    bool ok;      /* all that should be within this rank's reach is */
};

static struct summary read_entries(struct node *n)
{
    const struct node_call *c = &n->call;
    struct summary sum = {.ok = true};
    for (int i = 0; i < n->n; i++) {
        const struct node_line *line =
            &n->peers[i].region->entry[0][n->number % NODE_SLOTS];
        struct spots s;
        memcpy(&s, line->data, sizeof(s));
        const bool in = large_reads(c, i), out = large_writes(c, i);
        sum.foreign |= (in && !s.in.bytes) || (out && !s.out.bytes);
        sum.fresh |= (in && s.in.bytes & 1) || (out && s.out.bytes & 1);
        if (i == n->me) {
            n->ins[i] = (struct node_place_of){(char *)c->in, false};
            n->outs[i] = (struct node_place_of){c->out, false};
            continue;
        }
        if (in)
            sum.ok &= reach(n, i, &s.in, in_bytes(n, c), &n->ins[i]);
        if (out)
            sum.ok &= reach(n, i, &s.out, out_bytes(n, c), &n->outs[i]);
    }
    return sum;
}

/* --- the work -------------------------------------------------------------- */

static size_t at(const struct node *n, const struct large_share *share,
                 bool has_parts)
{
    const struct node_call *c = &n->call;
    return (share->first + (has_parts ? (size_t)n->me * c->count : 0))
           * c->elem_bytes;
}

/* Combines n->src[0..nsrc) into n->dst[0..ndst). */
static void combine(struct node *n, int nsrc, int ndst, size_t count,
                    bool stream)
{
    const struct node_call *c = &n->call;
    const size_t bytes = count * c->elem_bytes;
    if (c->combine)
        c->combine(n->dst, ndst, n->src, nsrc, count, n->n, stream);
    else
        op_copy(n->dst, ndst, n->src[0], bytes, stream);
    n->bytes_read += (size_t)nsrc * bytes;
    n->bytes_written += (size_t)ndst * bytes;
}

/* One piece of the share. Foreign inputs are read into scratch first; what
 * foreign outputs get is written from a result that is near. */
static coll_status piece(struct node *n, size_t in_at, size_t out_at,
                         size_t count, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t bytes = count * c->elem_bytes;
    const bool one = c->kind == BROADCAST || c->kind == ALLGATHER;
    const int only = c->kind == BROADCAST ? c->root : n->me;
    unsigned char *scratch = n->scratch;
    int nsrc = 0, ndst = 0, nforeign = 0;
    coll_status status = COLL_OK;
    for (int i = one ? only : 0; i < (one ? only + 1 : n->n); i++) {
        char *x = n->ins[i].address + in_at;
        if (n->ins[i].foreign) {
            status = foreign_read(n->peers[i].pid, scratch, x, bytes);
            if (status < 0)
                return status;
            n->bytes_read += bytes;
            n->bytes_written += bytes;
            x = (char *)scratch;
            scratch += NODE_PIECE_BYTES;
        }
        n->src[nsrc++] = x;
    }
    for (int i = 0; i < n->n; i++) {
        if (!large_writes(c, i) || (c->kind == REDUCE_SCATTER && i != n->me))
            continue;
        if (n->outs[i].foreign)
            nforeign++;
        else if (!one || n->outs[i].address + out_at != n->src[0])
            n->dst[ndst++] = n->outs[i].address + out_at;
    }
    if (one && nforeign)
        n->dst[ndst] = (void *)n->src[0]; /* it lies near already */
    else if (nforeign && !ndst)
        n->dst[ndst++] = scratch;
    if (ndst)
        combine(n, nsrc, ndst, count, stream && !nforeign);
    for (int i = 0; i < n->n && nforeign; i++)
        if (large_writes(c, i) && n->outs[i].foreign
            && (c->kind != REDUCE_SCATTER || i == n->me)) {
            status = foreign_write(n->peers[i].pid,
                                   one ? n->src[0] : n->dst[0],
                                   n->outs[i].address + out_at, bytes);
            if (status < 0)
                return status;
            n->bytes_read += bytes;
            n->bytes_written += bytes;
        }
    return COLL_OK;
}

static coll_status work(struct node *n, bool foreign)
{
    const struct node_call *c = &n->call;
    const struct large_share share =
        large_share(c, n->me, n->n, 0, c->count);
    const size_t most = foreign ? NODE_PIECE_BYTES / c->elem_bytes : share.count;
    const bool stream = c->count * c->elem_bytes
                        >= (n->far ? NODE_FAR_MIN : n->cache_bytes);
    const size_t in_at = at(n, &share, c->kind == REDUCE_SCATTER);
    const size_t out_at = at(n, &share, c->kind == ALLGATHER);
    for (size_t done = 0; done < share.count; done += most) {
        const size_t left = share.count - done;
        const size_t byte = done * c->elem_bytes;
        const coll_status status =
            piece(n, in_at + byte, out_at + byte, left < most ? left : most,
                  stream);
        if (status < 0)
            return status;
    }
    return COLL_OK;
}

static coll_status go(struct node *n, bool foreign)
{
    const coll_status status = work(n, foreign);
    if (status < 0)
        return status;
    large_mark(n, LARGE_DONE);
    n->state = LEAVE;
    return COLL_OK;
}

static coll_status begin_stage(struct node *n)
{
    n->state = STAGED;
    stage_begin(n);
    return COLL_OK;
}

/* All are here, and say where their vectors are. */
static coll_status entered(struct node *n)
{
    const struct node_call *c = &n->call;
    n->safe = n->number;
    n->at = 0;
    const struct summary sum = read_entries(n);
    if (sum.foreign
        && (!n->reads_foreign
            || c->count * c->elem_bytes < n->foreign_bytes))
        return begin_stage(n);
    if (!sum.fresh) {
        if (sum.ok)
            return go(n, sum.foreign);
        return fail(COLL_ERR_SYSTEM, "shm",
                    "a vector of another rank is not mapped any more");
    }
    n->foreign = sum.foreign;
    n->peers[n->me].region->phase.data[0] = sum.ok;
    large_mark(n, LARGE_AGREE);
    n->state = AGREE;
    return COLL_OK;
}

static bool all_ok(const struct node *n)
{
    bool ok = true;
    for (int i = 0; i < n->n; i++)
        ok &= n->peers[i].region->phase.data[0] == 1;
    return ok;
}

/* Some rank cannot map some block; all will try again at its next use. */
static void forget_announced(struct node *n)
{
    memset(n->announced, 0, sizeof(n->announced));
}

static coll_status step(struct node *n)
{
    coll_status status = COLL_OK;
    switch (n->state) {
    case GATE:
        if ((status = node_gate(n)) != COLL_OK)
            return status;
        enter(n);
        n->state = ENTER;
        /* fall through */
    case ENTER:
        for (; n->at < n->n; n->at++)
            if ((status = node_arrived(n, n->at,
                                       &n->peers[n->at].region->entry[0]
                                            [n->number % NODE_SLOTS]))
                != COLL_OK)
                return status;
        status = entered(n);
        break;
    case AGREE:
        if ((status = large_await(n, LARGE_AGREE)) != COLL_OK)
            return status;
        if (all_ok(n)) {
            status = go(n, n->foreign);
        } else {
            forget_announced(n);
            status = begin_stage(n);
        }
        break;
    case LEAVE: return large_await(n, LARGE_DONE);
    default: return stage_step(n);
    }
    return status < 0 ? status : n->step(n);
}

void node_start_direct(struct node *n, const struct node_call *call)
{
    node_begin(n, call);
    n->step = step;
}
