/* SPDX-License-Identifier: MIT */
/* The helper thread of a process (COLL_PROGRESS): it advances requests
 * while the program computes, and takes a communicator by the same word as
 * every call (owner.h). It runs from the first request that a call leaves
 * outstanding until the last such communicator is destroyed, the process exits
 * or the library is unloaded. A child of fork() has none until it needs its
 * own. It may run where the process's first communicator was made, as who
 * leaves requests to it may be bound to one processor, and compute there.
 */
#ifndef COMM_PROGRESS_H
#define COMM_PROGRESS_H

#include "comm/comm.h"

/* Before a communicator is made. */
void progress_prepare(void);

/* Leaves an entered communicator that has requests outstanding: to the helper,
 * which is started if there is none. */
void progress_leave(coll_comm *);

/* Before it is destroyed: returns once the helper knows nothing of it. */
void progress_part(coll_comm *);

/* Whether the caller is the helper, inside a function that a step runs. */
bool progress_is_here(void);

#endif
