/* SPDX-License-Identifier: MIT */
/* Vectors that near ranks have in common: one for all ranks of a host's NUMA
 * node, each of which moves a part of it. What all ranks would do to a copy of
 * their own, each to all of it, is so done once, and takes one's memory. */
#ifndef TRAINER_DIST_COMMON_H
#define TRAINER_DIST_COMMON_H

#include <stdatomic.h>

#include "breakdown.h"
#include "coll/coll.h"
#include "tensor.h"

struct strategy;

enum { COMMON_VECTORS = 2 };

struct common {
    int rank, nranks;     /* of those that have them; 1: nothing is common */
    struct strategy *job; /* theirs, */
    coll_comm *comm;      /* and themselves */
    struct arena board;   /* common_taken() */
    unsigned round;       /* meetings */
    struct arena *vectors[COMMON_VECTORS + 1]; /* and the board, of which */
    void *handles[COMMON_VECTORS + 1];         /* these are common */
};

/* On all ranks of the job: makes these vectors common, which at all near ranks
 * have the same contents. Nothing, and COLL_OK, where ranks share no memory,
 * the system denies it or it costs too much. */
coll_status common_open(struct common *, struct strategy *,
                        struct arena *const vectors[COMMON_VECTORS]);
/* The vectors are each rank's own again, with what is there. One for which
 * there is no memory is lost, and its x NULL, as nobody may free what is
 * common. */
void common_close(struct common *);

/* Between what one writes and what others read. An exchange in the breakdown.
 */
coll_status common_meet(struct common *);

/* Of things that whoever is free may do: how many have been taken, by all
 * ranks, since these met last. */
atomic_uint *common_taken(const struct common *);

#endif
