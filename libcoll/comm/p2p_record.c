/* SPDX-License-Identifier: MIT */
/* Sends and receives on record. */
#include "comm/p2p.h"
#include "comm/request.h"

/* Who takes a message of anyone's says whose it was. */
static void say(const coll_request *r, struct record *e)
{
    const bool receives = r->p2p.way == P2P_RECEIVE;
    const bool got = receives && r->status == COLL_OK;
    called_set(&e->called, receives ? CALLED_RECV : CALLED_SEND, r->dtype,
               COLL_SUM, got ? r->p2p.got.source : r->p2p.peer,
               got ? r->p2p.got.count : r->count);
    atomic_store_explicit(&e->tag,
                          (uint32_t)(got ? r->p2p.got.tag : r->p2p.tag),
                          memory_order_relaxed);
}

void p2p_record(coll_request *r)
{
    struct recorder *d = &r->comm->recorder;
    struct record *e = record_next(&d->messages);
    const bool over = r->status != COLL_IN_PROGRESS;
    const uint64_t now = record_ticks(d->counts);
    say(r, e);
    e->how = record_how(RECORD_NO_ALGO, 0, 0);
    record_publish(&d->messages, 0, over ? r->status : COLL_OK, now,
                   over ? now : 0);
    r->p2p.record = record_last(&d->messages);
}

void p2p_record_end(const coll_request *r)
{
    struct recorder *d = &r->comm->recorder;
    struct record *e = record_at(&d->messages, r->p2p.record);
    /* Others may have been written over it since. */
    if (!r->p2p.record
        || atomic_load_explicit(&e->number, memory_order_relaxed)
               != r->p2p.record)
        return;
    if (r->status == COLL_OK && r->p2p.way == P2P_RECEIVE)
        say(r, e);
    e->status = r->status;
    atomic_store_explicit(&e->ended, record_ticks(d->counts),
                          memory_order_release);
}
