/* SPDX-License-Identifier: MIT */
#include "comm/calls.h"

#include <stdio.h>

/* Before a rank doubts that others are in the same call. */
static const double doubt_seconds = .25;

void calls_sign(coll_comm *c, int called)
{
    struct recorder *d = &c->recorder;
    struct record *e = record_next(&d->calls);
    e->how = record_how(RECORD_NO_ALGO, 0, 0);
    c->history = record_tag(c->history, (uint32_t)called, e->how);
    called_set(&e->called, called, COLL_U8, COLL_SUM, 0, 0);
    atomic_store_explicit(&e->tag, c->history, memory_order_relaxed);
    record_publish(&d->calls, 0, COLL_OK, record_ticks(d->counts), 0);
}

/* In another thread than the calls: whether the record was whole meanwhile. */
static bool get_call(struct record_ring *ring, uint64_t number,
                     struct bootstrap_call *out)
{
    struct record *e = record_at(ring, number);
    char text[CALLED_TEXT];
    out->number = (uint32_t)number;
    out->tag = atomic_load_explicit(&e->tag, memory_order_acquire);
    called_text(&e->called, text);
    snprintf(out->text, sizeof(out->text), "%s", text);
    return record_last(ring) - number < RECORD_RING - 1;
}

int calls_tell(void *context, const uint32_t *upto, struct bootstrap_call *out)
{
    struct record_ring *ring = &((struct recorder *)context)->calls;
    uint64_t last = atomic_load_explicit(&ring->last, memory_order_acquire);
    const int32_t above = upto ? (int32_t)((uint32_t)last - *upto) : 0;
    if (above > 0)
        last = (uint64_t)above < last ? last - (uint64_t)above : 0;
    const uint64_t before =
        last > BOOTSTRAP_CALLS_MAX ? last - BOOTSTRAP_CALLS_MAX : 0;
    int n = 0;
    for (uint64_t number = before + 1; number <= last; number++)
        n += get_call(ring, number, &out[n]);
    return n;
}

void calls_doubt(coll_comm *c, double now)
{
    struct doubt *d = &c->doubt;
    const uint32_t begun = calls_begun(c);
    if (!c->bootstrap || !begun)
        return;
    if (d->at == 0 || d->begun != begun)
        *d = (struct doubt){
            .begun = begun, .at = now + doubt_seconds, .pause = doubt_seconds};
    if (now < d->at)
        return;
    bootstrap_inquire(c->bootstrap);
    d->pause *= 2;
    d->at = now + d->pause;
}
