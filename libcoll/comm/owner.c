/* SPDX-License-Identifier: MIT */
#include "comm/owner.h"

#include <sched.h>

#include "base/log.h"

/* Waits for the helper to leave; false: it is a call that is inside. */
static bool await_helper(coll_comm *c)
{
    for (;;) {
        int seen = OWNER_NONE;
        if (atomic_compare_exchange_weak_explicit(&c->owner, &seen, OWNER_CALL,
                                                  memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
        if (seen == OWNER_CALL || progress_is_here())
            return false;
        sched_yield();
    }
}

coll_status owner_taken(coll_comm *c, const char *call)
{
    atomic_fetch_add_explicit(&c->callers, 1, memory_order_relaxed);
    const bool entered = await_helper(c);
    atomic_fetch_sub_explicit(&c->callers, 1, memory_order_relaxed);
    if (entered)
        return COLL_OK;
    return fail(
        COLL_ERR_BUSY, "comm",
        "coll_%s: rank %d is inside another call on this communicator: one "
        "thread at a time may use it, and no function that a call runs",
        call, c->rank);
}
