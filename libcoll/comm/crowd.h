/* SPDX-License-Identifier: MIT */
/* What messages between hosts cost where ranks outnumber processors.
 *
 * A message alone between two ranks tells how long it takes, but not how much
 * of that some processor works, which is what counts when ranks take turns. So
 * one rank of each host takes part in rounds in which all send to their
 * neighbours at once: to the next one, and to the next few. With n messages on
 * P processors
 *
 *   a round of one message each    t1 = (2 o + turn) n / P + alpha
 *   a round of k messages each     tk = (2 k o + turn) n / P + alpha
 *
 * give o, the work at each end, and turn, what a processor needs to take up a
 * rank that has waited; alpha is what else passed when a message was alone, less
 * what of it another rank of the processor uses to send. Long messages,
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

/* All ranks call it, whether or not they are crowded, and get the same. Puts
 * what it finds in the place of the figures that were measured without a crowd.
 * host: per rank, numbered from 0 by lowest ranks. Fails with MEMORY, and as
 * messages do. crowd_free() afterwards. */
coll_status crowd_measure(coll_comm *, const int *host, int nhosts,
                          struct probe_groups *, struct crowd *);
void crowd_free(struct crowd *);

#endif
