/* SPDX-License-Identifier: MIT */
/* The plans of all ranks for one algorithm. They fit every number of bytes, so
 * one cast serves several rehearsals. */
#ifndef EXEC_CAST_H
#define EXEC_CAST_H

#include <stddef.h>

#include "plan/plan.h"

struct rehearsal;

struct cast {
    struct plan *plans; /* per rank; peers are ranks */
    int nranks;
};

/* Fails with MEMORY, and as the planner does; there is then nothing to free. */
coll_status cast_make(struct cast *, const struct rehearsal *);
void cast_free(struct cast *); /* also of all zero */

size_t cast_bytes(const struct cast *);

#endif
