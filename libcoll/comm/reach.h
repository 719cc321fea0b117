/* SPDX-License-Identifier: MIT */
#ifndef COMM_REACH_H
#define COMM_REACH_H

#include "comm/comm.h"

/* Whether each host reaches the next one over the interface that UCX is about
 * to use. UCX would wait for an answer in a system call, for minutes, deaf to
 * deadlines and to the failure of others. Sets job.slowest. All ranks call it;
 * PEER, on all, with a sentence that names hosts and address. */
coll_status comm_reach(coll_comm *);

#endif
