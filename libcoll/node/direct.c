/* SPDX-License-Identifier: MIT */
/* Long vectors: each rank combines its slice of all inputs and writes it into
 * all outputs.
 *
 *   time    two exchanges of a cache line, and the traffic
 *   traffic allreduce of S bytes on vectors of coll_mem_alloc(): S read and S
 *           written by each rank, the least there is
 *   order   by place, so all outputs hold the same bits; f16, bf16 and f8 are
 *           rounded once; by groups, and less traffic between them: near.c
 *   from    Peng and others, "Optimizing MPI collectives on shared memory
 *           multi-cores", SC 2023, has the count of traffic
 *
 * All publish where their vectors lie, and wait for all. Vectors in a heap are
 * mapped, see heap.h. Others are read and written through the system, see
 * foreign.h, a piece at a time so that it stays in the cache, or copied through
 * memory of the segment, see stage.c. Then each waits
 * for those who read or write its vectors, which mostly are all.
 */
#include "base/log.h"
#include "node/large.h"
#include "node/lines.h"

enum { GATE, ENTER, AGREE, LEAVE, NEAR, STAGED };

bool large_reads(const struct node_call *c, int place)
{
    return (c->kind != BROADCAST && c->kind != SCATTER) || place == c->root;
}

bool large_writes(const struct node_call *c, int place)
{
    return (c->kind != REDUCE && c->kind != GATHER) || place == c->root;
}

/* Equal shares, cut at cache lines. Where the result is one part for each rank
 * anyway, a rank does its own part. */
struct large_share large_share(const struct node_call *c, int place, int n,
                               size_t first, size_t count)
{
    if (kind_has_parts(c->kind)) {
        const size_t part = large_part(c, place);
        const size_t left = part > first ? part - first : 0;
        return (struct large_share){first, left < count ? left : count};
    }
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
    node_mark(&n->peers[n->me].region->phase, (uint64_t)n->number << 32 | step);
    node_ring_all(n);
    n->at = 0;
}

bool large_is_at(const struct node *n, int place, uint32_t step)
{
    const uint64_t wanted = (uint64_t)n->number << 32 | step;
    struct node_line *line = &n->peers[place].region->phase;
    const uint64_t word =
        atomic_load_explicit(&line->word, memory_order_acquire);
    return (int64_t)(word - wanted) >= 0;
}

coll_status large_await(struct node *n, uint32_t step)
{
    for (; n->at < n->n; n->at++)
        if (n->at != n->me && !large_is_at(n, n->at, step)) {
            n->awaited = n->at;
            return COLL_IN_PROGRESS;
        }
    return COLL_OK;
}

/* Until no other rank will touch this one's vectors. */
static coll_status leave(struct node *n)
{
    for (; n->at < n->n; n->at++)
        if (n->at != n->me && large_touches(n, n->at)
            && !large_is_at(n, n->at, LARGE_DONE)) {
            n->awaited = n->at;
            return COLL_IN_PROGRESS;
        }
    return COLL_OK;
}

static coll_status go(struct node *n)
{
    if (!n->foreign && n->mode == MODE_NEAR) {
        n->state = NEAR;
        near_begin(n);
        return COLL_OK;
    }
    const bool whole = large_whole(n);
    const bool stream = n->foreign ? whole && large_bytes(n) >= n->cache_bytes
                                   : (n->mode & MODE_STREAM) != 0;
    const coll_status status = large_moves(&n->call)
                                   ? large_move(n, whole, stream)
                                   : large_work(n, whole, stream);
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

/* All are here, and say where their vectors are. */
static coll_status entered(struct node *n)
{
    n->safe = n->number;
    n->at = 0;
    if (large_own_parts(&n->call)) {
        const coll_status status = large_parts_agree(n);
        if (status < 0)
            return status;
    }
    const struct large_summary sum = large_read_entries(n);
    n->foreign = sum.foreign;
    n->in_place = sum.in_place;
    n->mode = sum.mode;
    modes_start(n->modes);
    if (n->foreign && (n->mode == MODE_STAGE || n->mode == MODE_STAGE_STREAM)) {
        if (sum.fresh) /* nobody has said yet whether they can be mapped */
            large_forget(n);
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

/* For who says the mode to learn from, see entries.c. Of parts that differ the
 * longest tells little, all together more. */
static void keep_time(struct node *n)
{
    n->last = (struct node_last){
        .kind = n->call.kind,
        .foreign = n->foreign,
        .own = large_own_parts(&n->call),
        .tells = n->me == large_teller(&n->call)
                 && (!n->call.parts || n->call.parts->own),
        .mode = n->mode,
        .bytes = large_bytes(n),
        .ticks = modes_ticks(n->modes),
    };
}

static coll_status step(struct node *n)
{
    coll_status status = COLL_OK;
    switch (n->state) {
    case GATE:
        if ((status = node_gate(n)) != COLL_OK)
            return status;
        large_enter(n);
        n->state = ENTER;
        /* fall through */
    case ENTER:
        for (; n->at < n->n; n->at++)
            if ((status = node_arrived(n, n->at, large_line(n, n->at)))
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
            n->mode = MODE_STAGE;
            n->foreign = true;
            large_forget(n);
            status = begin_stage(n);
        }
        break;
    default:
        status = n->state == LEAVE  ? leave(n)
                 : n->state == NEAR ? near_step(n)
                                    : stage_step(n);
        if (status == COLL_OK)
            keep_time(n);
        return status;
    }
    return status < 0 ? status : n->step(n);
}

void large_follow(struct node *n)
{
    n->state = ENTER;
    n->at = 0;
    n->step = step;
}

void node_start_direct(struct node *n)
{
    node_begin(n);
    n->step = step;
}
