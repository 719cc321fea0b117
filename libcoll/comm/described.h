/* SPDX-License-Identifier: MIT */
/* Which hosts of COLL_CLUSTER the hosts of a job are: those of the same names
 * where the description has names, as Slurm's has; else as many as the job has,
 * in order. A communicator that is split off has its hosts where they were. */
#ifndef COMM_DESCRIBED_H
#define COMM_DESCRIBED_H

#include "comm/comm.h"

/* (*host_at)[i]: the logical index of the job's i-th host, by its lowest rank;
 * [nhosts], the caller frees. Notes it in c->ranks for what is split off. topo
 * may be NULL. Equal on all ranks. Fails with MEMORY, and as below. */
coll_status described_hosts(coll_comm *c, const coll_topo *topo, int **host_at);

/* By hostnames, of which a domain behind the described name does not count.
 * Fails with INVALID where one is not described, or two hosts have the same. */
coll_status described_find(const coll_topo *topo, int nhosts,
                           const char *const *hostnames, int *host_at);

#endif
