/* SPDX-License-Identifier: MIT */
/* Whom a rank meets on a level, and which piece of the running operation's
 * vector is whose there; for near.c. */
#ifndef NODE_NEAR_H
#define NODE_NEAR_H

#include "node/large.h"

static inline const struct nest *near_nest(const struct node *n)
{
    return &n->near.nest[n->call.kind];
}

static inline int near_top(const struct node *n)
{
    return near_nest(n)->depth - 1;
}

/* Which this rank is of those that meet on a level, and the place of the i-th
 * of them. */
int near_digit(const struct node *, int level);
int near_sibling(const struct node *, int level, int i);
/* Whether this rank and the root are in one of the groups that meet there. */
bool near_has_root(const struct node *, int level);

/* A slice of a vector goes by so many blocks, as many on all ranks. */
size_t near_blocks(const struct node *);
/* Of a block, a rank's piece on a level: elements of the vector. Vectors with a
 * part for each rank are not cut: whose positions have the same digits on all
 * levels up to this one, of their parts is the piece, so much of each. */
struct large_share near_piece(const struct node *, int level, int place,
                              size_t block);
size_t near_parts(const struct node *, int level);
/* Whose the k-th of these parts is, and where it begins in the vector; 0
 * without parts. */
int near_part_of(const struct node *, int level, int place, size_t k);
size_t near_part_at(const struct node *, int level, int place, size_t k);

/* Where a rank puts its sums of a level, part by part. */
char *near_area(const struct node *, int level, int place, size_t block);

#endif
