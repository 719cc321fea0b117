/* SPDX-License-Identifier: MIT */
/* Which ranks of a host meet whom in small collectives.
 *
 * Ranks that share a cache, a NUMA node or a package form groups, in which
 * everybody reads what everybody has written; the first member of a group, its
 * leader, goes on to the next level, up to a level with one group.
 *
 *   level 1  machine   0         4         8          12
 *                      |         |         |          |
 *   level 0  cache     0 1 2 3   4 5 6 7   8 9 10 11  12 13 14 15
 *
 * What a place is comes from the caller; here it is numbers that are equal or
 * not. A group that is too large, for instance as places are unknown, is cut
 * into even parts, whose leaders then meet.
 */
#ifndef NODE_LEVELS_H
#define NODE_LEVELS_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/types.h"

enum {
    NODE_LEVELS_MAX = 4, /* up to 4096 ranks it is 3 */
    NODE_GROUP_MAX = 16, /* members of a group */
    NODE_RANKS_MAX = 1 << 16,
};

/* What the members of a group have in common, the closest first. */
enum node_span { SPAN_CACHE, SPAN_NUMA, SPAN_PACKAGE, SPAN_MACHINE, SPANS };
extern const int node_line_price[SPANS]; /* of a cache line from a member */
extern const char *const node_span_names[SPANS];

/* Where a rank of this host runs: indices that ranks can be compared by;
 * negative: unknown, or several. Caches are taken to lie within NUMA nodes
 * and these within packages; where they do not, the smaller of the two counts.
 */
struct node_place {
    int package, numa, cache;
};

/* One level. Groups are numbered by their leaders. */
struct node_level {
    const char *what; /* "cache", "numa", "package", "machine"; "part" */
    int nmembers;     /* ranks that take part */
    int ngroups;
    int *group_of; /* [n], of a rank; -1: takes no part */
    int *first;    /* [ngroups + 1], into members */
    int *members;  /* [nmembers], group by group, in each in rank order */
};

struct node_levels {
    int n, nlevels;
    struct node_level level[NODE_LEVELS_MAX];
    int *memory; /* of all arrays */
};

/* The hierarchy for ranks 0 .. n - 1 of a host, places[i] of rank i. Depends on
 * nothing but the places, so all ranks get the same. Fails with MEMORY, and
 * UNSUPPORTED beyond NODE_RANKS_MAX; logs nothing. */
coll_status node_levels_build(struct node_levels *levels,
                              const struct node_place places[], int n);
void node_levels_free(struct node_levels *levels);

/* What one rank needs to know. members live as long as the levels. */
struct node_membership {
    const int *members; /* this rank too; in rank order, the leader first */
    int nmembers;       /* 1: nobody to meet, at this level */
    bool leads;
};

/* Sets at[0 .. k - 1] for the k levels that the rank takes part in, which are
 * the lowest k, and returns k. The last level's group is the same for all. */
int node_levels_of(const struct node_levels *levels, int rank,
                   struct node_membership at[NODE_LEVELS_MAX]);

/* "16 ranks: 4 groups of 4 (cache) / 1 group of 4 (machine)", without a final
 * newline; otherwise like snprintf(). */
size_t node_levels_print(const struct node_levels *levels, char *text,
                         size_t bytes);

#endif
