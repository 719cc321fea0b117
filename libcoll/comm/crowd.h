/* SPDX-License-Identifier: MIT */
/* What messages between hosts cost where ranks outnumber processors.
 *
 * A message alone between two ranks tells how long it takes, but not how much
 * of that some processor works, which is what counts when ranks take turns. So
 * one rank of each host takes part in rounds in which all send to their
 * neighbours at once: to the next one, and to the next few. With n messages on
 * P processors
 *
 *   a round of one message each    t1 = n o2 / P + alpha
 *   a round of k messages each     tk = k n o2 / P + alpha
 *
 * give o2, the work at both ends, and alpha, what else passes. Long messages,
 * of one pair alone and of all, tell whether a machine can move what the ports
 * of its hosts can. Rounds that would tell nothing are left out. Each of the
 * four kinds takes about 2 ms, by what messages were found to take before: up
 * to 25 rounds, 3 where one lasts longer than a millisecond. Then all tell all,
 * once.
 */
#ifndef COMM_CROWD_H
#define COMM_CROWD_H

#include "comm/comm.h"
#include "comm/probe.h"

struct crowd {
    int nmachines, nprocessors; /* on each machine, the fewest; nmachines 0:
                                   nobody has to take turns */
    int *machine_of;            /* per rank */
    double machine;             /* as in struct sim_net */
};

/* All ranks call it, whether or not they are crowded, and get the same. Puts
 * what it finds in the place of the figures that were measured without a crowd.
 * host: per rank, numbered from 0 by lowest ranks. Fails with MEMORY, and as
 * messages do. crowd_free() afterwards. */
coll_status crowd_measure(coll_comm *, const int *host, int nhosts,
                          struct probe_groups *, struct crowd *);
void crowd_free(struct crowd *);

#endif
