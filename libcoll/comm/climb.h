/* SPDX-License-Identifier: MIT */
/* Which candidates are rehearsed, at which rungs of the ladder.
 *
 * First each is rehearsed at the shortest and at the longest rung. Then,
 * from the middle outwards, only those are rehearsed that the lines between
 * the rungs promise to be about as fast as the best of their collective. So
 * most of the time goes to what may be chosen, and what the budget leaves
 * out is the finest.
 *
 * Plans with many messages are dear. Of these a bound (exec/bound.h) is asked
 * first, and a line between two rungs is believed where it is sure, or where
 * nobody else is near.
 */
#ifndef COMM_CLIMB_H
#define COMM_CLIMB_H

#include "comm/casts.h"
#include "comm/ladder.h"
#include "comm/lineup.h"
#include "comm/price.h"

struct candidate {
    struct price_row *row;
    const struct algo *algo;
    const struct lineup *lineup;
    bool pipelines;
    struct ladder ladder;
    double messages[PRICE_VARIANTS]; /* of one rehearsal; NAN: not asked */
    double seconds, seconds_of;      /* the last took, and its messages */
};

struct pricing {
    const struct layout *layout;
    struct candidate candidates[PRICE_ROWS];
    int n; /* those that are to be priced; the others come behind */
    bool prunes, in_pairs; /* see struct price_limits */
    bool only_pairs;       /* what keeps no pairs is out of the race */
    unsigned kinds;        /* bit per enum coll_kind */
    double max_messages;   /* of one rehearsal */
    double until; /* by clock_of_thread(): a crowded machine chooses no worse */
    uint32_t rehearsals;
    struct casts casts;
};

/* Fills the ladders of all candidates. in_pairs: there is a race among those
 * that keep IN_PAIRS before. Fails like rehearse(). */
coll_status climb_all(struct pricing *);

#endif
