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
        return c->parts->before[place + 1] - c->parts->before[place];
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
        return c->parts->at && c->kind == ALLGATHER ? c->parts->at[place]
                                                    : c->parts->before[place];
    return c->apart ? (size_t)c->part_of[place] * c->apart
                    : (size_t)place * c->count;
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
coll_status large_await(struct node *, uint32_t step);

/* entries.c: of the longest input. */
size_t large_bytes(const struct node *);
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

/* stage.c: from where direct.c finds that ranks cannot reach each other. */
void stage_begin(struct node *);
coll_status stage_step(struct node *);

#endif
