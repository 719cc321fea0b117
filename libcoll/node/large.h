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

/* Whether a rank's vector is used at all, and for which ranks it has a part. */
bool large_reads(const struct node_call *, int place);
bool large_writes(const struct node_call *, int place);

/* Steps of an operation, as the phase line has them; stages count on. */
enum { LARGE_AGREE = 1, LARGE_DONE = 2, LARGE_STAGE = 4 };

/* Publishes how far this rank is, and waits for all others to be as far. Steps
 * of one operation only grow. */
void large_mark(struct node *, uint32_t step);
coll_status large_await(struct node *, uint32_t step);

/* stage.c: from where direct.c finds that ranks cannot reach each other. */
void stage_begin(struct node *);
coll_status stage_step(struct node *);

#endif
