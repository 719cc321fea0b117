/* SPDX-License-Identifier: MIT */
/* Groups of a job's ranks, as communicators of their own. */
#ifndef TRAINER_DIST_GROUP_H
#define TRAINER_DIST_GROUP_H

#include "coll/coll.h"

/* The ranks of this one's host that run in the same NUMA node as the calling
 * thread does now. All ranks of the job call it, on all of which it fails. */
coll_status group_near(coll_comm *job, coll_comm **group);

/* Leaves a group; NULL is allowed. By force if the job has failed: who waits in
 * one of the two does not see that. */
void group_leave(coll_comm *group, coll_comm *job);

#endif
