/* SPDX-License-Identifier: MIT */
/* One lane of UCX: a context and a worker of its own, on one rail. */
#ifndef TRANSPORT_UCX_LANE_H
#define TRANSPORT_UCX_LANE_H

#include "transport/transport.h"

/* An end as transport.h has them, but for how it is opened. The rail may be
 * NULL: unknown; it and the job must outlive the lane. */
coll_status ucx_lane_open(struct transport **, const struct transport_job *,
                          const struct transport_rail *);

/* As progress(), which seldom looks while nothing is awaited but packets. */
bool ucx_lane_look(struct transport *);

/* Before close(): tells the peers that this end is going, so that none takes it
 * for a fault, where all that was sent has been flushed. They may have gone
 * themselves, so it waits for no more than these seconds; returns what is left
 * of them. */
double ucx_lane_part(struct transport *, double seconds);

#endif
