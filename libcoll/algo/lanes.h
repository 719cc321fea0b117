/* SPDX-License-Identifier: MIT */
/* Who does what in a hierarchy: a vector cut up level by level.
 *
 * Stage d joins the groups of level d that lie in one group of level d - 1; the
 * last stage, number `depth`, joins the ranks of an innermost group. From the
 * last stage to the first each cuts what a rank holds into `parts[d]` windows,
 * one for each child of the largest group of that level; where a group has
 * fewer, its children take several. So groups may be of any sizes.
 *
 * A path says which window was taken at each stage from the last up to d + 1;
 * all ranks that hold the same path in the children of one group are a column:
 * they add up what they hold.
 */
#ifndef ALGO_LANES_H
#define ALGO_LANES_H

#include "algo/groups.h"

enum { LANES_STAGES = PLAN_LEVELS + 1 };

struct lanes {
    struct groups groups;
    int depth;                /* that of groups */
    int parts[LANES_STAGES];  /* windows that stage d cuts into: the children of
                                 the largest group */
    int fewest[LANES_STAGES]; /* children of the smallest one */
    int size[LANES_STAGES];   /* chunks of one of them */
    int nchunks; /* all of them; 0: too many, as groups differ much */
    /* This position's siblings at each stage, and which of them it is in. */
    int first[LANES_STAGES], nsiblings[LANES_STAGES], mine[LANES_STAGES];
};

void lanes_init(struct lanes *, const struct plan_shape *);

/* The outermost stage cuts into so many windows instead. */
void lanes_recut(struct lanes *, int parts);

/* The i-th path of stage d that this position holds, as its first chunk, and
 * how many there are: 1 where all groups of a level are of one size. */
int lanes_npaths(const struct lanes *, int d);
int64_t lanes_most_paths(const struct lanes *, int d); /* of any position */
struct lane_path {
    int at[LANES_STAGES]; /* window taken at stages d + 1 to depth */
    int chunk;
};
struct lane_path lanes_path(const struct lanes *, int d, int i);

/* The position that holds the path in sibling q of this position's groups. */
int lanes_holder(const struct lanes *, int d, const struct lane_path *, int q);

/* The part of a column's windows that member q of it keeps. */
struct lane_part {
    int chunk, nchunks;
};
struct lane_part lanes_part(const struct lanes *, int d,
                            const struct lane_path *, int q);

#endif
