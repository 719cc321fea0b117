/* SPDX-License-Identifier: MIT */
#include "comm/owner.h"

#include "base/log.h"

coll_status owner_taken(coll_comm *c, const char *call)
{
    return fail(
        COLL_ERR_BUSY, "comm",
        "coll_%s: rank %d is inside another call on this communicator: one "
        "thread at a time may use it, and no function that a call runs",
        call, c->rank);
}
