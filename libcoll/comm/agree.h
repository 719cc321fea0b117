/* SPDX-License-Identifier: MIT */
/* Calls that all ranks make, and that fail at all if they do at one. */
#ifndef COMM_AGREE_H
#define COMM_AGREE_H

#include "comm/comm.h"

/* Begins what each rank tells all in a round. Fixed widths: it travels. */
struct verdict {
    int32_t status;
    char reason[512];
};

/* Waits for this rank's outstanding requests, and compares what the ranks have
 * called, with `called` of called.h as the last. call: "split". Fails for all
 * with MISMATCH, for one alone with what the communicator failed with; there is
 * nothing to agree_end() then. */
coll_status agree_begin(coll_comm *, const char *call, int called);

/* A round, in which this rank fares as `status` says, with the last sentence of
 * fail(). `bytes` of mine go to all, one after another, and both begin with a
 * verdict. Returns what the first rank has that failed, with its sentence. */
coll_status agree(coll_comm *, const char *call, coll_status status, void *mine,
                  void *all, size_t bytes);

/* The call is over. */
void agree_end(coll_comm *, coll_status);

#endif
