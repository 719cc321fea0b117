/* SPDX-License-Identifier: MIT */
/* What messages between hosts cost where ranks outnumber processors.
 *
 * A message alone between two ranks tells how long it takes, and how long its
 * sender works, but not what it costs that ranks take turns: a processor has to
 * take up each rank that has waited. So one rank of each host takes part in
 * rounds in which all send to the next one at once. With n messages on P
 * processors
 *
 *   a message alone    w + alpha           of which w = 2 o + turn is work;
 *                                          the soonest of all pairs,
 *   a round            w n / P + alpha
 *
 * and alpha no less than 0: between hosts of one machine nearly all is work.
 * Long messages, of one pair alone and of all, tell whether a machine can move
 * what the ports of its hosts can. Rounds that would tell nothing are left out.
 * Each of the three kinds takes about 2 ms, by what messages were found to take
 * before: up to 25 rounds, 3 where one lasts longer than a millisecond. Then
 * all tell all, once.
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
