/* SPDX-License-Identifier: MIT */
/* What this rank has called last, in order: kept for the hub, which compares it
 * with the other ranks' when one of them doubts that all are in the same call
 * (bootstrap/hub_judge.c). So every rank is told of two calls that differ in
 * one sentence that names both, whatever moves the data, also where no message
 * of the one meets a wait of the other.
 */
#ifndef COMM_CALLS_H
#define COMM_CALLS_H

#include "comm/comm.h"

static inline uint32_t calls_begun(const coll_comm *c)
{
    return atomic_load_explicit(&((coll_comm *)c)->calls.begun,
                                memory_order_relaxed);
}

/* Notes the next call: its tag, and, put into what this returns, what it is;
 * then publish. Stores only. */
static inline struct called *calls_next(struct calls *calls, uint32_t tag)
{
    const uint32_t number =
        atomic_load_explicit(&calls->begun, memory_order_relaxed) + 1;
    struct noted *call = &calls->call[number % CALLS_KEPT];
    /* Pairs with the loads in get_call(): who reads what follows knows that the
     * number is no longer that of the call before. */
    atomic_store_explicit(&call->number, 0, memory_order_relaxed);
    atomic_store_explicit(&call->tag, tag, memory_order_release);
    return &call->called;
}

static inline void calls_publish(struct calls *calls)
{
    const uint32_t number =
        atomic_load_explicit(&calls->begun, memory_order_relaxed) + 1;
    atomic_store_explicit(&calls->call[number % CALLS_KEPT].number, number,
                          memory_order_release);
    atomic_store_explicit(&calls->begun, number, memory_order_release);
}

/* The same for a call that is no collective: CALLED_SPLIT and so on. */
void calls_sign(coll_comm *, int called);

/* For bootstrap_answer(): a struct calls. */
int calls_tell(void *context, struct bootstrap_call *);

/* At each look at the clock of who waits: inquires once the call under way has
 * been waited for for a quarter of a second, then after twice that, and so on.
 */
void calls_doubt(coll_comm *, double now);

#endif
