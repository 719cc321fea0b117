/* SPDX-License-Identifier: MIT */
/* Where this process runs, and what its links are taken to cost. */
#ifndef COMM_HERE_H
#define COMM_HERE_H

#include "comm/comm.h"

/* Sets host, hostname, package, numa and cache. */
void here_fill(struct rank_info *);

/* Processors that this process may use at once. */
int here_cpus(void);

/* From COLL_CLUSTER, else from the defaults that here.c states. Fails with
 * INVALID for a COLL_CLUSTER that does not parse. */
coll_status here_model(struct select_model *, int nhosts);

#endif
