/* SPDX-License-Identifier: MIT */
/* The floats of all ranks, brought to rank 0 one after another. */
#ifndef TRAINER_DIST_COLLECT_H
#define TRAINER_DIST_COLLECT_H

#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

struct span {
    const float *x;
    size_t count;
};

/* Of one rank: n spans, which others see as one. */
struct floats {
    struct span spans[4];
    int n;
};

size_t floats_count(const struct floats *);

/* These are called by all ranks, each with its own floats. Rank 0 gets how many
 * each has, in counts[ranks]; then takes them from rank 0 on, a part at a time,
 * which is gone when take() returns. So it needs memory for a part only. Fail
 * as coll_recv() does, and with MEMORY. */
typedef void take_fn(void *context, int rank, const float *x, size_t count);
coll_status collect_counts(coll_comm *, const struct floats *mine,
                           uint64_t *counts);
coll_status collect(coll_comm *, const struct floats *mine,
                    const uint64_t *counts, take_fn *take, void *context);

#endif
