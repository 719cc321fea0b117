/* SPDX-License-Identifier: MIT */
/* The entries of a long collective: where everybody's vectors are, seen from
 * here, and which mode it is to be. */
#include <string.h>

#include "node/large.h"
#include "node/lines.h"

/* What a rank publishes at the start: where its two vectors are. */
struct spot {
    uint64_t block;
    uint64_t bytes;  /* of the block; 0: not in the heap. Bit 0: new to some */
    uint64_t offset; /* not in the heap: the address */
};
struct spots {
    struct spot in, out;
    uint8_t mode[2]; /* of the first rank: on vectors in heaps, and others */
    float ticks;     /* that the rank's last long operation took */
};
_Static_assert(sizeof(struct spots) <= NODE_LINE_DATA, "fits into a line");

/* Whether peers have yet to map a block; they are taken to keep it. */
static bool announce(struct node *n, uint64_t block)
{
    if (views_find(&n->announced, block))
        return false;
    views_add(&n->announced, (struct node_view){.block = block});
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

/* Elements of a vector: some vectors have parts, some are a part of another. */
static size_t length(const struct node *n, int place, bool parts,
                     bool other_has_parts)
{
    const struct node_call *c = &n->call;
    if (parts && c->parts)
        return c->parts->all.before[n->n];
    if (parts)
        return c->whole ? c->whole : c->count * (size_t)n->n;
    return other_has_parts ? large_part(c, place) : c->count;
}

static size_t in_bytes(const struct node *n, int place)
{
    const struct node_call *c = &n->call;
    return length(n, place, large_in_parts(c), large_out_parts(c))
           * c->elem_bytes;
}

/* If parts are one after another, the first rank's is the longest. */
size_t large_bytes(const struct node *n)
{
    const struct node_call *c = &n->call;
    if (large_own_parts(c))
        return c->parts->all.before[n->n] * c->elem_bytes;
    return c->parts && c->kind == ALLGATHER ? c->count * c->elem_bytes
                                            : in_bytes(n, 0);
}

static size_t out_bytes(const struct node *n, int place)
{
    const struct node_call *c = &n->call;
    return length(n, place, large_out_parts(c), large_in_parts(c))
           * c->elem_bytes;
}

/* From its first byte to its last one: parts may lie apart. */
static size_t span(const struct node *n, bool parts, size_t bytes)
{
    const struct node_call *c = &n->call;
    return parts && c->apart
               ? (large_part_at(c, n->n - 1) + c->count) * c->elem_bytes
               : bytes;
}

/* The same where lengths are their ranks' own: of another rank's vector, as far
 * as this one will touch it. */
static size_t own_span(const struct node *n, int place, bool parts)
{
    const struct node_call *c = &n->call;
    if (!parts)
        return place == n->me || n->me == c->root
                   ? large_part(c, place) * c->elem_bytes
                   : 0;
    if (place == n->me)
        return large_parts_span(n) * c->elem_bytes;
    const struct large_parts_entry e = large_parts_of(n, place);
    return e.count ? (e.at + e.count) * c->elem_bytes : 0;
}

static size_t in_span(const struct node *n, int place)
{
    return large_own_parts(&n->call)
               ? own_span(n, place, large_in_parts(&n->call))
               : span(n, large_in_parts(&n->call), in_bytes(n, place));
}

static size_t out_span(const struct node *n, int place)
{
    return large_own_parts(&n->call)
               ? own_span(n, place, large_out_parts(&n->call))
               : span(n, large_out_parts(&n->call), out_bytes(n, place));
}

/* From a vector that is read to the one that is written where the two are one.
 * A root's part is where it is in the other. Of REDUCE_SCATTER and ALLGATHER
 * the first rank's, if its part comes first. */
static uint64_t in_place_shift(const struct node *n)
{
    const struct node_call *c = &n->call;
    const uint64_t to_part = large_part_at(c, c->root) * c->elem_bytes;
    return c->kind == GATHER ? 0 - to_part : c->kind == SCATTER ? to_part : 0;
}

/* Whether others write a rank's result. Where parts differ only it knows where
 * they lie; the root of a gather says so. */
static bool is_written(const struct node_call *c, int place)
{
    return large_writes(c, place)
           && (!c->parts || (c->kind == GATHER && c->parts->own));
}

/* Whether others read a rank's vector. */
static bool is_read(const struct node_call *c, int place)
{
    return large_reads(c, place)
           && !(c->kind == GATHER && c->parts && place == c->root);
}

/* Modes that cannot be: in place, nobody may write its own result while others
 * still read its vector, and parts are then exchanged in one way only; a result
 * that is one part for each rank has no slices; and a right may be missing. */
static unsigned possible(const struct node *n, bool foreign, bool in_place)
{
    const unsigned all = (1u << MODE_NEAR) - 1;
    const unsigned near = !foreign && near_can(n) ? 1u << MODE_NEAR : 0;
    const enum coll_kind kind = n->call.kind;
    const bool whole = !((kind == ALLREDUCE || kind == ALLTOALL) && in_place);
    const bool slices =
        kind == GATHER
        || (kind != REDUCE_SCATTER && kind != SCATTER && !n->call.parts);
    if (near && kind_reduces(kind)) /* in one order of sums */
        return near;
    if (foreign && !n->reads_foreign)
        return 1u << MODE_STAGE | 1u << MODE_STAGE_STREAM;
    if (foreign)
        return all & ~(whole ? 0u : 1u << MODE_READ)
               & ~(slices ? 0u : 1u << MODE_READ_WRITE);
    return near | (whole && slices ? all : 1u | 1u << MODE_STREAM);
}

/* For the rank to say that knows most: the first, or one that knows all of the
 * lengths. Stores past the caches save reading what is written; sums in place,
 * if it is that this rank's are, have read it. */
static int propose(struct node *n, bool foreign)
{
    const size_t bytes = large_bytes(n);
    const bool in_place =
        (uintptr_t)n->call.out - (uintptr_t)n->call.in == in_place_shift(n);
    const unsigned may = possible(n, foreign, in_place);
    const bool read = in_place && kind_reduces(n->call.kind);
    int likely = may == 1u << MODE_NEAR             ? MODE_NEAR
                 : bytes >= n->cache_bytes && !read ? MODE_STREAM
                                                    : 0;
    if (foreign) {
        likely = may >> MODE_READ & 1 && n->call.kind != GATHER
                     ? MODE_READ
                     : MODE_READ_WRITE;
        if (!(may >> likely & 1) || bytes < NODE_FOREIGN_MIN)
            likely = MODE_STAGE;
    }
    return n->call.parts && !n->call.parts->own
               ? likely
               : modes_choose(&n->modes[n->call.parts != NULL], n->call.kind,
                              foreign, bytes, likely, may);
}

struct node_line *large_line(const struct node *n, int place)
{
    struct node_region *r = n->peers[place].region;
    const unsigned slot = n->number % NODE_SLOTS;
    return large_own_parts(&n->call) ? &r->result[slot] : &r->entry[0][slot];
}

void large_enter(struct node *n)
{
    const struct node_call *c = &n->call;
    struct node_line *line = large_line(n, n->me);
    struct spots spots = {0};
    if (is_read(c, n->me) && in_bytes(n, n->me))
        spots.in = locate(n, 0, c->in, in_span(n, n->me));
    if (is_written(c, n->me) && out_bytes(n, n->me))
        spots.out = locate(n, 1, c->out, out_span(n, n->me));
    for (int f = 0; f < 2 && n->me == large_teller(c); f++)
        spots.mode[f] = (uint8_t)propose(n, f);
    spots.ticks = n->last.ticks;
    memcpy(line->data, &spots, sizeof(spots));
    node_tell(n);
    node_mark(line, n->word);
    node_ring_all(n);
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
                     ? node_view(p, &p->large, s->block, whole, true)
                     : NULL;
    *where = (struct node_place_of){base ? base + s->offset : NULL, false};
    return base != NULL;
}

/* Whether a vector has elements. */
static bool has(const struct node *n, const struct spot *s, size_t bytes)
{
    return large_own_parts(&n->call) ? s->bytes || s->offset : bytes > 0;
}

/* An operation takes as long as its slowest rank, which the others hear of when
 * the next one begins. */
static void learn(struct node *n, float slowest)
{
    if (n->last.tells)
        modes_learn(&n->modes[n->last.own], n->last.kind, n->last.foreign,
                    n->last.bytes, n->last.mode, slowest);
    n->last.tells = false;
}

struct large_summary large_read_entries(struct node *n)
{
    const struct node_call *c = &n->call;
    struct large_summary sum = {.ok = true};
    uint8_t modes[2] = {0, 0};
    float slowest = 0;
    for (int i = 0; i < n->n; i++) {
        struct spots s;
        memcpy(&s, large_line(n, i)->data, sizeof(s));
        if (i == large_teller(c))
            memcpy(modes, s.mode, sizeof(modes));
        slowest = s.ticks > slowest ? s.ticks : slowest;
        const bool in = is_read(c, i) && has(n, &s.in, in_bytes(n, i));
        const bool out = is_written(c, i) && has(n, &s.out, out_bytes(n, i));
        sum.foreign |= (in && !s.in.bytes) || (out && !s.out.bytes);
        sum.fresh |= (in && s.in.bytes & 1) || (out && s.out.bytes & 1);
        sum.in_place |= in && out && s.in.block == s.out.block
                        && s.out.offset - s.in.offset == in_place_shift(n)
                        && !s.in.bytes == !s.out.bytes;
        if (i == n->me) {
            n->ins[i] = (struct node_place_of){(char *)c->in, false};
            n->outs[i] = (struct node_place_of){c->out, false};
            continue;
        }
        if (in)
            sum.ok &= reach(n, i, &s.in, in_span(n, i), &n->ins[i]);
        if (out)
            sum.ok &= reach(n, i, &s.out, out_span(n, i), &n->outs[i]);
    }
    learn(n, slowest);
    /* The one that says it may not know of what others have. */
    const unsigned may = possible(n, sum.foreign, sum.in_place);
    sum.mode = modes[sum.foreign] % NMODES;
    if (!(may >> sum.mode & 1))
        sum.mode = sum.foreign              ? MODE_STAGE
                   : may == 1u << MODE_NEAR ? MODE_NEAR
                                            : sum.mode & MODE_STREAM;
    return sum;
}

/* Some rank cannot map some block; all will try again at its next use. */
void large_forget(struct node *n)
{
    views_clear(&n->announced);
}
