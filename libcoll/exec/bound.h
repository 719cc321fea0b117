/* SPDX-License-Identifier: MIT */
/* The least that a rehearsal can say, without one.
 *
 * Two bounds, and the larger one counts. Along the plans, each message takes
 * what it takes alone, after the one before it between the same two ranks: the
 * critical path. And whatever port, link, machine or rank has most to do is at
 * it from when the first could come to when the last is gone.
 *
 * Takes a time in proportion to the steps of all plans, whatever they share. A
 * rehearsal in which rates are found at a few instants only (struct sim_net)
 * may come out shorter by as much as it is off.
 */
#ifndef EXEC_BOUND_H
#define EXEC_BOUND_H

#include "exec/rehearse.h"

/* Of a dry run. *seconds: no more than rehearse() would say. Fails with MEMORY,
 * like a planner, and with PEER where ranks wait for one another. */
coll_status bound(const struct rehearsal *, double *seconds);

#endif
