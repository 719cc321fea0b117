/* SPDX-License-Identifier: MIT */
#ifndef COMM_REACH_H
#define COMM_REACH_H

#include "comm/comm.h"

/* Finds the rails: the network by which the ranks met, and every other of which
 * all hosts have an interface and each host reaches the next one; or those of
 * COLL_INTERFACE. UCX would wait for an answer in a system call, for minutes,
 * deaf to deadlines and to the failure of others, so none is used untried.
 * Other networks are left out; of the first one, and of one that was named,
 * that is PEER, on all ranks, with a sentence that names hosts and address.
 * Sets job.rails. All ranks call it.
 *
 * Where it takes milliseconds to the farthest host, hosts also knock at all
 * doors that probe.c would send messages to, so that the round trips to far
 * hosts are known without one more: sets `ways`, for each host and round as
 * struct nearby_table has them, equal on all ranks. alpha 0: the way is near,
 * and nothing is known of it; beta: of the first round, if alpha is not 0. */
coll_status comm_reach(coll_comm *);

#endif
