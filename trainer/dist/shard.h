/* SPDX-License-Identifier: MIT */
/* A vector that all ranks have, of which each looks after a part (Rajbhandari
 * et al., ZeRO, SC 2020, stage 1): equal runs in rank order, the last ones
 * shorter. All ranks make the same calls. */
#ifndef TRAINER_DIST_SHARD_H
#define TRAINER_DIST_SHARD_H

#include <stddef.h>

#include "coll/coll.h"

struct shard {
    coll_comm *comm;
    size_t *counts;      /* of each rank's part; NULL: nothing is shared out */
    size_t first, count; /* this rank's */
};

/* Of vectors of so many floats. MEMORY. */
coll_status shard_open(struct shard *, coll_comm *, size_t count);
void shard_close(struct shard *);

/* In place: this rank's part becomes the sum over the ranks; the rest of x is
 * anything then. */
coll_status shard_sum(const struct shard *, float *x);
/* In place: all parts come from their ranks. */
coll_status shard_gather(const struct shard *, float *x);
/* The same for rank 0 only, from a vector that has a rank's part alone; whole
 * is not touched by others. */
coll_status shard_collect(const struct shard *, const float *part,
                          float *whole);

#endif
