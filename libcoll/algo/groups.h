/* SPDX-License-Identifier: MIT */
/* Groups of positions inside groups, as a plan_tree lists them; the positions
 * themselves are the groups of one more level, number `depth`. Groups of a
 * level are numbered in the order of their positions, so those that lie in one
 * group of another level are a range. */
#ifndef ALGO_GROUPS_H
#define ALGO_GROUPS_H

#include "plan/plan.h"

struct groups {
    const struct plan_tree *tree; /* NULL: no levels */
    int nranks, depth;
};

struct range {
    int from, to;
};

struct groups groups_of(const struct plan_shape *); /* no tree: no levels */

/* How many of level d. */
int groups_count(const struct groups *, int d);

/* The first position of group g of level d. */
int groups_first(const struct groups *, int d, int g);

/* The group of level d that the position is in. */
int groups_find(const struct groups *, int d, int position);

/* The positions of group g of level d. */
struct range groups_span(const struct groups *, int d, int g);

/* The groups of level d beside group g, and it. */
struct range groups_siblings(const struct groups *, int d, int g);

/* Of two groups' positions, which need not be as many: member i of m is the
 * peer of member i k / m of k. The one in `to` that position x of `from` has,
 * and those in `from` that have x of `to`. */
int groups_peer(struct range from, struct range to, int x);
struct range groups_peers(struct range from, struct range to, int x);

/* The groups of level d in group g of the level outside, which for the
 * outermost level are all. */
struct range groups_children(const struct groups *, int d, int g);

#endif
