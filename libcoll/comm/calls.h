/* SPDX-License-Identifier: MIT */
/* What this rank has called last, in order, from its record (record.h): the hub
 * compares it with the other ranks' when one of them doubts that all are in the
 * same call (bootstrap/hub_judge.c). So every rank is told of two calls that
 * differ in one sentence that names both, whatever moves the data, also where
 * no message of the one meets a wait of the other.
 */
#ifndef COMM_CALLS_H
#define COMM_CALLS_H

#include "comm/comm.h"

/* The number of the last call; wraps. */
static inline uint32_t calls_begun(const coll_comm *c)
{
    return (uint32_t)record_last(&c->recorder.calls);
}

/* A call that is no collective begins: CALLED_SPLIT and so on. It ends by
 * record_end(). */
void calls_sign(coll_comm *, int called);

/* For bootstrap_answer(): a struct recorder. */
int calls_tell(void *context, const uint32_t *upto, struct bootstrap_call *);

/* At each look at the clock of who waits: inquires once the call under way has
 * been waited for for a quarter of a second, then after twice that, and so on.
 */
void calls_doubt(coll_comm *, double now);

#endif
