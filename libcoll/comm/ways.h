/* SPDX-License-Identifier: MIT */
/* What hosts found when they knocked at one another's doors, as probe.c would
 * have found it by messages. Pure. */
#ifndef COMM_WAYS_H
#define COMM_WAYS_H

#include "comm/nearby.h"

/* What a host found; travels. */
struct ways_seen {
    float seconds_per_byte; /* of the stream that came to it; 0: unknown */
    float round_trip[NEARBY_MAX_ROUNDS]; /* to whom it meets; 0: unknown */
};

/* Fills ways, for each host and round as struct nearby_table has them, of those
 * pairs whose round trip is longer than far; alpha 0: it is not. beta: of the
 * first round, 0 where no stream passed between the two. next: per host, where
 * its stream went. False: some round trip is unknown. */
bool ways_find(int nhosts, const struct ways_seen *, const int *next, float far,
               struct nearby_pair *ways);

/* Whether all pairs are far, and the rates of the first round known: that is
 * all that would be asked of far hosts. */
bool ways_are_all(int nhosts, const struct nearby_pair *ways);

#endif
