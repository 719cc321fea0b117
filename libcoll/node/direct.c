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
    uint8_t mode[2]; /* of the first rank: on vectors in heaps, and others */
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
    const size_t each =
        ((count + (size_t)n - 1) / (size_t)n + line - 1) / line * line;
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
        if (n->at != n->me && (int64_t)(word - wanted) < 0) {
            n->awaited = n->at;
            return COLL_IN_PROGRESS;
        }
    }
    return COLL_OK;
}

/* --- where the vectors are -------------------------------------------------
 */

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

static struct spot locate(struct node *n, int which, const void *vector,
                          size_t bytes)
{
    const struct heap_spot at = heap_find_again(&n->memo[which], vector, bytes);
    if (!at.bytes)
        return (struct spot){0, 0, (uintptr_t)vector};
    return (struct spot){at.block, at.bytes | announce(n, at.block), at.offset};
}

static size_t in_bytes(const struct node *n)
{
    const struct node_call *c = &n->call;
    return c->count * c->elem_bytes
           * (c->kind == REDUCE_SCATTER ? (size_t)n->n : 1);
}

static size_t out_bytes(const struct node *n)
{
    const struct node_call *c = &n->call;
    return c->count * c->elem_bytes * (c->kind == ALLGATHER ? (size_t)n->n : 1);
}

/* Modes that cannot be: in place, nobody may write its own result while others
 * still read its vector; a result that is one part for each rank has no slices;
 * and a right may be missing. */
static unsigned possible(const struct node *n, bool foreign, bool in_place)
{
    const unsigned all = (1u << NMODES) - 1;
    const bool whole = !(n->call.kind == ALLREDUCE && in_place);
    const bool slices = n->call.kind != REDUCE_SCATTER;
    if (!foreign)
        return all
               & ~(whole ? 0u
                         : 1u << MODE_WHOLE | 1u << (MODE_WHOLE | MODE_STREAM))
               & ~(slices
                       ? 0u
                       : 1u << MODE_WHOLE | 1u << (MODE_WHOLE | MODE_STREAM));
    if (!n->reads_foreign)
        return 1u << MODE_STAGE | 1u << MODE_STAGE_STREAM;
    return all & ~(whole ? 0u : 1u << MODE_READ)
           & ~(slices ? 0u : 1u << MODE_READ_WRITE);
}

/* For the first rank to say. */
static int propose(struct node *n, bool foreign)
{
    const size_t bytes = in_bytes(n);
    const bool in_place = n->call.in == n->call.out;
    const unsigned may = possible(n, foreign, in_place);
    int likely = bytes >= n->cache_bytes ? MODE_STREAM : 0;
    if (foreign) {
        likely = may >> MODE_READ & 1 ? MODE_READ : MODE_READ_WRITE;
        if (!(may >> likely & 1) || bytes < NODE_FOREIGN_MIN)
            likely = MODE_STAGE;
    }
    return modes_choose(n->modes, n->call.kind, foreign, bytes, likely, may);
}

static void enter(struct node *n)
{
    const struct node_call *c = &n->call;
    struct node_line *line =
        &n->peers[n->me].region->entry[0][n->number % NODE_SLOTS];
    struct spots spots = {0};
    if (large_reads(c, n->me))
        spots.in = locate(n, 0, c->in, in_bytes(n));
    if (large_writes(c, n->me))
        spots.out = locate(n, 1, c->out, out_bytes(n));
    for (int f = 0; f < 2 && n->me == 0; f++)
        spots.mode[f] = (uint8_t)propose(n, f);
    memcpy(line->data, &spots, sizeof(spots));
    node_mark(line, n->number, c->tag);
    node_ring_all(n);
}

/* A peer's block, mapped now if need be; NULL if it cannot be. */
static char *view(struct node_peer *p, uint64_t block, uint64_t bytes)
{
    if (p->same_process)
        return heap_address(block);
    for (unsigned i = 0; i < NODE_VIEWS; i++)
        if (p->views[i].memory && p->views[i].block == block) {
            p->last_view = i;
            return p->views[i].memory;
        }
    /* Not the one before: it may be the other vector of this operation. */
    p->next_view = (p->next_view + 1) % NODE_VIEWS;
    if (p->next_view == p->last_view)
        p->next_view = (p->next_view + 1) % NODE_VIEWS;
    p->last_view = p->next_view;
    struct node_view *v = &p->views[p->next_view];
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
    *where =
        (struct node_place_of){(char *)(uintptr_t)s->offset, !p->same_process};
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
    bool foreign;  /* a vector is in no heap */
    bool fresh;    /* a block is to be mapped for the first time */
    bool ok;       /* all that should be within this rank's reach is */
    bool in_place; /* of some rank, the two vectors are one */
    int mode;
};

static struct summary read_entries(struct node *n)
{
    const struct node_call *c = &n->call;
    struct summary sum = {.ok = true};
    uint8_t modes[2] = {0, 0};
    for (int i = 0; i < n->n; i++) {
        const struct node_line *line =
            &n->peers[i].region->entry[0][n->number % NODE_SLOTS];
        struct spots s;
        memcpy(&s, line->data, sizeof(s));
        if (i == 0)
            memcpy(modes, s.mode, sizeof(modes));
        const bool in = large_reads(c, i), out = large_writes(c, i);
        sum.foreign |= (in && !s.in.bytes) || (out && !s.out.bytes);
        sum.fresh |= (in && s.in.bytes & 1) || (out && s.out.bytes & 1);
        sum.in_place |= in && out && s.in.offset == s.out.offset
                        && s.in.block == s.out.block
                        && !s.in.bytes == !s.out.bytes;
        if (i == n->me) {
            n->ins[i] = (struct node_place_of){(char *)c->in, false};
            n->outs[i] = (struct node_place_of){c->out, false};
            continue;
        }
        if (in)
            sum.ok &= reach(n, i, &s.in, in_bytes(n), &n->ins[i]);
        if (out)
            sum.ok &= reach(n, i, &s.out, out_bytes(n), &n->outs[i]);
    }
    /* The first rank may not know of what others have. */
    const unsigned may = possible(n, sum.foreign, sum.in_place);
    sum.mode = modes[sum.foreign] % NMODES;
    if (!(may >> sum.mode & 1))
        sum.mode = sum.foreign ? MODE_STAGE : sum.mode & MODE_STREAM;
    return sum;
}

/* --- the work --- */

enum { ALL = -1 };

/* One thing to do: combine the vectors of a rank or of all, from a byte on,
 * into those of a rank or of all. */
struct task {
    int from, to; /* place, or ALL */
    size_t in_at, out_at, count;
    bool stream;
};

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

static coll_status fetch(struct node *n, int place, void *here,
                         const void *there, size_t bytes)
{
    n->bytes_read += bytes;
    n->bytes_written += bytes;
    return foreign_read(n->peers[place].pid, here, there, bytes);
}

/* The sources of a piece; foreign ones are read into scratch, of which the rest
 * is left in *scratch. */
static coll_status gather_sources(struct node *n, const struct task *t,
                                  unsigned char **scratch, int *nsrc)
{
    const int first = t->from == ALL ? 0 : t->from;
    const int end = t->from == ALL ? n->n : t->from + 1;
    for (int i = first; i < end; i++) {
        char *x = n->ins[i].address + t->in_at;
        if (n->ins[i].foreign) {
            const coll_status status =
                fetch(n, i, *scratch, x, t->count * n->call.elem_bytes);
            if (status < 0)
                return status;
            x = (char *)*scratch;
            *scratch += NODE_PIECE_BYTES;
        }
        n->src[(*nsrc)++] = x;
    }
    return COLL_OK;
}

static bool goes_to(const struct node *n, const struct task *t, int place)
{
    return t->to == ALL ? large_writes(&n->call, place) : t->to == place;
}

/* What foreign outputs get is written from a result that is near. */
static coll_status piece(struct node *n, const struct task *t)
{
    const struct node_call *c = &n->call;
    const size_t bytes = t->count * c->elem_bytes;
    unsigned char *scratch = n->scratch;
    int nsrc = 0, ndst = 0, nforeign = 0;
    coll_status status = gather_sources(n, t, &scratch, &nsrc);
    if (status < 0)
        return status;
    for (int i = 0; i < n->n; i++) {
        if (!goes_to(n, t, i))
            continue;
        char *const x = n->outs[i].address + t->out_at;
        if (n->outs[i].foreign)
            nforeign++;
        else if (c->combine || x != n->src[0])
            n->dst[ndst++] = x;
    }
    const void *result = ndst ? n->dst[0] : n->src[0];
    if (c->combine && !ndst)
        result = n->dst[ndst++] = scratch;
    if (ndst)
        combine(n, nsrc, ndst, t->count, t->stream && !nforeign);
    for (int i = 0; i < n->n && nforeign; i++)
        if (goes_to(n, t, i) && n->outs[i].foreign) {
            status = foreign_write(n->peers[i].pid, result,
                                   n->outs[i].address + t->out_at, bytes);
            if (status < 0)
                return status;
            n->bytes_read += bytes;
            n->bytes_written += bytes;
        }
    return COLL_OK;
}

static coll_status work(struct node *n, const struct task *whole)
{
    const size_t elem = n->call.elem_bytes;
    struct task t = *whole;
    const bool straight = !n->call.combine && n->ins[t.from].foreign
                          && t.to == n->me; /* no need to pass by scratch */
    if (straight)
        return fetch(n, t.from, n->outs[n->me].address + t.out_at,
                     n->ins[t.from].address + t.in_at, t.count * elem);
    if (!n->foreign)
        return piece(n, &t);
    for (size_t left = t.count; left; left -= t.count) {
        const size_t most = NODE_PIECE_BYTES / elem;
        t.count = left < most ? left : most;
        const coll_status status = piece(n, &t);
        if (status < 0)
            return status;
        t.in_at += t.count * elem;
        t.out_at += t.count * elem;
    }
    return COLL_OK;
}

/* Each rank its slice of all results. */
static coll_status work_by_slices(struct node *n, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t elem = c->elem_bytes;
    const size_t part = (size_t)n->me * c->count * elem;
    const struct large_share s = large_share(c, n->me, n->n, 0, c->count);
    struct task t = {ALL, ALL, s.first * elem, s.first * elem, s.count, stream};
    if (c->kind == BROADCAST)
        t.from = c->root;
    if (c->kind == ALLGATHER) {
        t.from = n->me;
        t.out_at = part;
    }
    return t.count ? work(n, &t) : COLL_OK;
}

/* Each rank all of its own result. */
static coll_status work_whole(struct node *n, bool stream)
{
    const struct node_call *c = &n->call;
    const size_t bytes = c->count * c->elem_bytes;
    struct task t = {ALL, n->me, 0, 0, c->count, stream};
    if (!large_writes(c, n->me) || !c->count)
        return COLL_OK;
    if (c->kind == REDUCE_SCATTER)
        t.in_at = (size_t)n->me * bytes;
    if (c->kind == BROADCAST)
        t.from = c->root;
    if (c->kind != ALLGATHER)
        return work(n, &t);
    for (int i = 0; i < n->n; i++) {
        t.from = (n->me + i) % n->n; /* not all at the same one */
        t.out_at = (size_t)t.from * bytes;
        const coll_status status = work(n, &t);
        if (status < 0)
            return status;
    }
    return COLL_OK;
}

static coll_status go(struct node *n)
{
    const bool whole =
        n->foreign ? n->mode == MODE_READ : (n->mode & MODE_WHOLE) != 0;
    const bool stream = n->foreign ? whole && in_bytes(n) >= n->cache_bytes
                                   : (n->mode & MODE_STREAM) != 0;
    const coll_status status = whole || n->call.kind == REDUCE_SCATTER
                                   ? work_whole(n, stream)
                                   : work_by_slices(n, stream);
    if (status < 0)
        return status;
    large_mark(n, LARGE_DONE);
    n->state = LEAVE;
    return COLL_OK;
}

static coll_status begin_stage(struct node *n)
{
    n->state = STAGED;
    n->stage_stream = n->foreign && n->mode == MODE_STAGE_STREAM;
    stage_begin(n);
    return COLL_OK;
}

/* Some rank cannot map some block; all will try again at its next use. */
static void forget_announced(struct node *n)
{
    memset(n->announced, 0, sizeof(n->announced));
}

/* All are here, and say where their vectors are. */
static coll_status entered(struct node *n)
{
    n->safe = n->number;
    n->at = 0;
    const struct summary sum = read_entries(n);
    n->foreign = sum.foreign;
    n->mode = sum.mode;
    modes_start(n->modes);
    if (n->foreign && (n->mode == MODE_STAGE || n->mode == MODE_STAGE_STREAM)) {
        if (sum.fresh) /* nobody has said yet whether they can be mapped */
            forget_announced(n);
        return begin_stage(n);
    }
    if (!sum.fresh) {
        if (sum.ok)
            return go(n);
        return fail(COLL_ERR_SYSTEM, "shm",
                    "a vector of another rank is not mapped any more");
    }
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
            if ((status = node_arrived(
                     n, n->at,
                     &n->peers[n->at].region->entry[0][n->number % NODE_SLOTS]))
                != COLL_OK)
                return status;
        status = entered(n);
        break;
    case AGREE:
        if ((status = large_await(n, LARGE_AGREE)) != COLL_OK)
            return status;
        if (all_ok(n)) {
            status = go(n);
        } else {
            forget_announced(n);
            status = begin_stage(n);
        }
        break;
    default: /* LEAVE or STAGED */
        status = n->state == LEAVE ? large_await(n, LARGE_DONE) : stage_step(n);
        if (status == COLL_OK && n->me == 0)
            modes_finish(n->modes, n->call.kind, n->foreign, in_bytes(n),
                         n->mode);
        return status;
    }
    return status < 0 ? status : n->step(n);
}

void node_start_direct(struct node *n)
{
    node_begin(n);
    n->step = step;
}
