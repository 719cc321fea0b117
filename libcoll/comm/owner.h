/* SPDX-License-Identifier: MIT */
/* Who is inside a communicator: one thread at a time.
 *
 * Every public call that uses the communicator enters it first and leaves it
 * last; a second thread, or a call from inside a call, gets COLL_ERR_BUSY and
 * has touched nothing. The helper thread enters too (progress.h), for a moment,
 * for which a call waits. Exempt are the calls that any thread may make, such
 * as coll_comm_abort() and coll_last_error().
 */
#ifndef COMM_OWNER_H
#define COMM_OWNER_H

#include "comm/p2p.h"
#include "comm/progress.h"

enum owner { OWNER_NONE, OWNER_CALL, OWNER_HELPER };

/* When the word was not OWNER_NONE. call: its name without coll_. */
coll_status owner_taken(coll_comm *, const char *call);

static inline coll_status comm_enter(coll_comm *c, const char *call)
{
    int seen = OWNER_NONE;
    /* Pairs with the store in comm_leave(): what the last one did is seen. */
    if (__builtin_expect(atomic_compare_exchange_strong_explicit(
                             &c->owner, &seen, OWNER_CALL, memory_order_acquire,
                             memory_order_relaxed),
                         1))
        return COLL_OK;
    return owner_taken(c, call);
}

static inline void comm_leave(coll_comm *c)
{
    if (c->helped && comm_has_work(c)) {
        progress_leave(c);
        return;
    }
    atomic_store_explicit(&c->owner, OWNER_NONE, memory_order_release);
}

#endif
