/* SPDX-License-Identifier: MIT */
/* How deep long vectors go: groups within groups, all of one size.
 *
 *   level 2  machine   2 packages       each a group of level 1
 *   level 1  package   2 caches         each a group of level 0
 *   level 0  cache     3 ranks
 *
 *   position   0 1 2   3 4 5     6 7 8   9 10 11
 *
 * A position numbers ranks so that groups of every level are runs of it, in
 * rank order and by their first ranks. What a rank has to do on a level it
 * shares with those whose positions differ from its own in that level's digit
 * alone: on level 1 rank 4 meets rank 1.
 */
#ifndef NODE_NEST_H
#define NODE_NEST_H

#include "algo/algo.h"
#include "node/levels.h"

struct nest {
    int depth;  /* levels, of which the last is the machine; 0: no groups */
    bool split; /* a sum is shared out on the last level, too, and put together
                   there; else each who meets there makes all of it */
    int size[SPANS];  /* of a group, in groups of the level below; in ranks */
    int under[SPANS]; /* ranks in each of these */
    enum node_span span[SPANS];
};

/* Ranks in a group. */
static inline int nest_ranks(const struct nest *t, int level)
{
    return t->under[level] * t->size[level];
}

/* Which of its group a position is on a level. */
static inline int nest_digit(const struct nest *t, int level, int position)
{
    return position / t->under[level] % t->size[level];
}

/* Whether all ranks get all of the result, so that it is put together on the
 * levels on which it was shared out. */
static inline bool nest_spreads(enum coll_kind kind)
{
    return kind == ALLREDUCE || kind == BROADCAST || kind == ALLGATHER;
}

/* On how many levels, from level 1 on: not on the last, but if it is split. */
static inline int nest_last_spread(const struct nest *t, enum coll_kind kind)
{
    return !nest_spreads(kind) ? 0 : t->depth - (t->split ? 1 : 2);
}

/* Of ranks 0 .. n - 1 of a host: place_of[position], and how each kind of
 * collective goes. Depends on nothing but who shares what, so all ranks get the
 * same. Fails with MEMORY. */
coll_status nest_build(struct nest nest[NKINDS], int place_of[],
                       const struct node_place places[], int n);

/* "3 (cache) x 2 (package) x 2 (machine)" or "as one". */
enum { NEST_TEXT_BYTES = 128 };
void nest_print(const struct nest *, char text[NEST_TEXT_BYTES]);

#endif
