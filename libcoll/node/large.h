/* SPDX-License-Identifier: MIT */
/* What the ways for long vectors have in common, for inside node/. */
#ifndef NODE_LARGE_H
#define NODE_LARGE_H

#include "node/node.h"

/* Which part of the work is whose: elements [first, first + count) of the
 * vector, or of one part of it where it has a part for each rank. */
struct large_share {
    size_t first, count;
};
struct large_share large_share(const struct node_call *, int place, int n,
                               size_t first, size_t count);

/* Elements of a rank's part, where the vector has one for each. */
static inline size_t large_part(const struct node_call *c, int place)
{
    const size_t first = (size_t)place * c->count;
    if (c->parts)
        return c->parts->all.before[place + 1] - c->parts->all.before[place];
    if (!c->whole)
        return c->count;
    if (first >= c->whole)
        return 0;
    return c->whole - first < c->count ? c->whole - first : c->count;
}

/* Where it begins. */
static inline size_t large_part_at(const struct node_call *c, int place)
{
    if (c->parts)
        return c->parts->all.at ? c->parts->all.at[place]
                                : c->parts->all.before[place];
    return c->apart ? (size_t)c->part_of[place] * c->apart
                    : (size_t)place * c->count;
}

/* Whether each rank knows the lengths of its own parts alone. */
static inline bool large_own_parts(const struct node_call *c)
{
    return c->parts && c->parts->own;
}

/* Who says the mode. */
static inline int large_teller(const struct node_call *c)
{
    return large_own_parts(c) ? c->root : 0;
}

/* Of ALLTOALL: what this rank gets of another. */
static inline size_t large_got(const struct node_call *c, int place)
{
    return c->parts
               ? c->parts->got.before[place + 1] - c->parts->got.before[place]
               : c->count;
}

static inline size_t large_got_at(const struct node_call *c, int place)
{
    if (!c->parts)
        return large_part_at(c, place);
    return c->parts->got.at ? c->parts->got.at[place]
                            : c->parts->got.before[place];
}

/* Whether vectors that are read, or written, have a part for each rank. */
static inline bool large_in_parts(const struct node_call *c)
{
    return c->kind == REDUCE_SCATTER || c->kind == SCATTER
           || c->kind == ALLTOALL;
}

static inline bool large_out_parts(const struct node_call *c)
{
    return c->kind == ALLGATHER || c->kind == GATHER || c->kind == ALLTOALL;
}

/* Whether a rank's vector is used at all. */
bool large_reads(const struct node_call *, int place);
bool large_writes(const struct node_call *, int place);

/* Steps of an operation, as the phase line has them; stages count on. */
enum { LARGE_AGREE = 1, LARGE_DONE = 2, LARGE_STAGE = 4 };

/* Publishes how far this rank is, and waits for all others to be as far. Steps
 * of one operation only grow. */
void large_mark(struct node *, uint32_t step);
bool large_is_at(const struct node *, int place, uint32_t step);
coll_status large_await(struct node *, uint32_t step);

/* entries.c: of the longest input. */
size_t large_bytes(const struct node *);
/* The line that says where a rank's vectors are. */
struct node_line *large_line(const struct node *, int place);
/* Publishes where this rank's vectors are. */
void large_enter(struct node *);
/* What the entries of all ranks say together; equal on all ranks but for ok.
 * Sets node->ins and outs. */
struct large_summary {
    bool foreign;  /* a vector is in no heap */
    bool fresh;    /* a block is to be mapped for the first time */
    bool in_place; /* of some rank, the two vectors are one */
    bool ok;       /* all that should be within this rank's reach is */
    int mode;
};
struct large_summary large_read_entries(struct node *);
/* All blocks count as not yet mapped by peers. */
void large_forget(struct node *);

/* Whether each rank makes all of its own result, in node->mode. */
static inline bool large_whole(const struct node *n)
{
    return n->foreign ? n->mode == MODE_READ : (n->mode & MODE_WHOLE) != 0;
}

/* work.c: this rank's share; whole: all of its own result, else its slice of
 * all; stream: stored past the caches. */
coll_status large_work(struct node *, bool whole, bool stream);

/* move.c: the same for kinds in which every byte has one place to go to:
 * GATHER, SCATTER and ALLTOALL. */
bool large_moves(const struct node_call *);
coll_status large_move(struct node *, bool whole, bool stream);
/* GATHER, SCATTER and BROADCAST: so many elements of what a rank and the root
 * have for each other it moves itself, and the root the rest: its share if it
 * is in place, and has nothing to copy, or a smaller one if others are in
 * processes, so that all take as long. */
size_t large_own_share(const struct node *);
/* Whether a rank reads or writes this one's vectors in node->mode. */
bool large_touches(const struct node *, int place);

/* direct.c: what follows large_enter(). */
void large_follow(struct node *);

/* parts.c, of large_own_parts(): what other ranks have said of parts, once they
 * have entered. */
struct large_parts_entry { /* in elements */
    uint64_t at, count;
};
/* Of a rank that has a part for each, that for or from this one. */
struct large_parts_entry large_parts_of(const struct node *, int place);
/* The whole vector of this rank, from its first to its last element. */
size_t large_parts_span(const struct node *);
/* MISMATCH if two ranks say different lengths; else makes call.count that of
 * the longest part of all. */
coll_status large_parts_agree(struct node *);

/* near.c: MODE_NEAR, of vectors within reach. */
bool near_can(const struct node *);
void near_begin(struct node *);
coll_status near_step(struct node *);

/* stage.c: from where direct.c finds that ranks cannot reach each other. */
void stage_begin(struct node *);
coll_status stage_step(struct node *);

#endif
