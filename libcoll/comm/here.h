/* SPDX-License-Identifier: MIT */
/* Where this process runs, and what its links are taken to cost. */
#ifndef COMM_HERE_H
#define COMM_HERE_H

#include "comm/comm.h"

/* Sets host, hostname, cpus and quota. */
void here_fill(struct rank_info *);

/* The kernel that runs here, whatever its namespaces; 0: unknown. */
uint64_t here_machine(void);

/* Where the calling thread's rank runs, for groups of ranks that are near each
 * other: by its affinity, or -1 for what it spans several of. Where
 * COLL_CLUSTER describes the inside of a host, instead where coll_topo_place()
 * puts rank local_rank of local_ranks on one: spread evenly over its cores, in
 * order, a core for several where there are too few. So the groups of any
 * machine can be tried on any other. All ranks of a host call it with the same
 * COLL_CLUSTER. Takes some milliseconds. */
void here_place(struct node_place *, int local_rank, int local_ranks);

/* Bytes of the last level of caches, as the kernel has it, whence hwloc does; a
 * guess where it has none. The processor's own word on virtual machines is that
 * of all the machine below them. */
size_t here_cache(void);

/* Whether a rank shares processors with others that may want them at the same
 * time: more ranks than CPUs on its machine, or than its cgroups grant its
 * host. The same on whichever rank it is asked. */
bool here_is_crowded(const coll_comm *, int rank);

/* Of the machines of the job: the fewest processors that one's ranks may use.
 */
int here_fewest_processors(const coll_comm *);

/* What COLL_CLUSTER describes; *topo NULL: nothing. The caller frees it. Fails
 * with INVALID for a text that does not parse. */
coll_status here_cluster(coll_topo **topo);

/* What a message and a byte cost where nothing better is known. */
extern const struct layout_costs here_assumed;

#endif
