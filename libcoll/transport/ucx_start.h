/* SPDX-License-Identifier: MIT */
/* Starts UCX for a job: which of its transports and devices, and a worker. */
#ifndef TRANSPORT_UCX_START_H
#define TRANSPORT_UCX_START_H

#include "transport/transport.h"
#include "transport/ucx_load.h"

/* On the rail, or where that is NULL on what UCX chooses. After an error
 * *context may be set, and is then to be cleaned up. */
coll_status ucx_start(const struct ucx_api *, const struct transport_job *,
                      const struct transport_rail *, ucp_context_h *context,
                      ucp_worker_h *worker);

#endif
