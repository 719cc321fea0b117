/* SPDX-License-Identifier: MIT */
/* Plans that were rehearsed lately: pricing comes back to them with other
 * sizes, and finds a bound before a time. The oldest go once all together are
 * large. */
#ifndef COMM_CASTS_H
#define COMM_CASTS_H

#include "comm/lineup.h"
#include "exec/cast.h"

enum { CASTS = 32, CASTS_BYTES = 32 << 20 };

/* All zero is empty. */
struct casts {
    struct kept_cast {
        const struct lineup *lineup; /* NULL: a free place */
        const struct algo *algo;
        int segments; /* of the plan */
        struct cast cast;
        size_t bytes;
        unsigned used; /* when last */
    } kept[CASTS];
    size_t bytes; /* of all */
    unsigned now;
};

/* *cast stays theirs, until the next call. Fails like cast_make(). */
coll_status casts_get(struct casts *, const struct lineup *,
                      const struct performance *, const struct cast **cast);
void casts_free(struct casts *);

#endif
