/* SPDX-License-Identifier: MIT */
/* Runs one planner at every rank of a simulated machine, in one thread: to
 * price an algorithm, and to prove it. */
#ifndef EXEC_REHEARSE_H
#define EXEC_REHEARSE_H

#include "exec/cast.h"
#include "exec/exec.h"
#include "transport/sim.h"

struct rehearsal {
    void (*plan)(struct plan *, const struct plan_shape *);
    int nranks, segments;
    const struct plan_tree *tree;
    int root; /* at position 0, its successor at 1, and so on round ... */
    const int *order; /* ... unless this says which rank is at each position */
    int root_at; /* of a gather or scatter, of which positions are ranks */
    const struct cast *cast; /* what that makes; NULL: made for this once */
    size_t count, elem_bytes;
    const struct exec_chunks (*chunks)[2]; /* per rank, see exec.h; not of a dry
                                              run; NULL: equal ones */
    struct sim_net net;
    const struct combine *reduce; /* NULL in a dry run */
    char **in, **out;             /* one vector a rank; NULL: a dry run */
    bool in_parts, out_parts;     /* rank r's is only the vector's r-th part */
    struct sim_traffic *traffic;  /* per rank, written; may be NULL */
    uint16_t
        *news; /* per rank: what it tells, then what it has heard; or NULL */
};

/* *seconds: virtual time until the last rank finished. PEER: the plans wait
 * on one another; MISMATCH: they disagree on a message; MEMORY. */
coll_status rehearse(const struct rehearsal *, double *seconds);

#endif
