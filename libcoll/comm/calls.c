/* SPDX-License-Identifier: MIT */
#include "comm/calls.h"

#include <stdio.h>

/* Before a rank doubts that others are in the same call. */
static const double doubt_seconds = .25;

void calls_sign(coll_comm *c, int called)
{
    c->history = (c->history ^ (uint32_t)called) * 0x9e3779b1u + 1;
    called_set(calls_next(&c->calls, c->history), called, COLL_U8, COLL_SUM, 0,
               0);
    calls_publish(&c->calls);
}

/* In another thread than the calls: of an entry that is written meanwhile the
 * number has changed. */
static bool get_call(struct noted *call, struct bootstrap_call *out)
{
    char text[CALLED_TEXT];
    out->number = atomic_load_explicit(&call->number, memory_order_acquire);
    out->tag = atomic_load_explicit(&call->tag, memory_order_acquire);
    called_text(&call->called, text);
    snprintf(out->text, sizeof(out->text), "%s", text);
    return out->number
           && out->number
                  == atomic_load_explicit(&call->number, memory_order_relaxed);
}

int calls_tell(void *context, struct bootstrap_call *out)
{
    struct calls *calls = context;
    const uint32_t begun =
        atomic_load_explicit(&calls->begun, memory_order_acquire);
    int n = 0;
    for (uint32_t i = CALLS_KEPT; i-- > 0;) {
        const uint32_t number = begun - i;
        n += get_call(&calls->call[number % CALLS_KEPT], &out[n])
             && out[n].number == number;
    }
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
