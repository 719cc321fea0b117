/* SPDX-License-Identifier: MIT */
#include "dist/server_rules.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Relaxed: what one thread writes another may read at any time or never, which
 * is what Hogwild means; threads meet where they are joined. */
static inline float get(const float *x, bool at_once)
{
    return at_once ? atomic_load_explicit((const _Atomic float *)x,
                                          memory_order_relaxed)
                   : *x;
}

static inline void put(float *x, float value, bool at_once)
{
    if (at_once)
        atomic_store_explicit((_Atomic float *)x, value, memory_order_relaxed);
    else
        *x = value;
}

static inline void read_centre(const struct server_state *s, float *reply,
                               bool at_once)
{
    for (size_t i = 0; i < s->count; i++)
        reply[i] = get(&s->centre[i], at_once);
}

static inline void elastic(const struct server_state *s, const float *sent,
                           float *reply, bool at_once)
{
    if (!sent) {
        read_centre(s, reply, at_once);
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        const float c = get(&s->centre[i], at_once);
        put(&s->centre[i], c + s->alpha * (sent[i] - c), at_once);
        if (reply)
            reply[i] = c;
    }
}

static inline void add(const struct server_state *s, const float *sent,
                       float *reply, bool at_once)
{
    if (!sent) {
        read_centre(s, reply, at_once);
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        const float c = get(&s->centre[i], at_once) + sent[i];
        put(&s->centre[i], c, at_once);
        if (reply)
            reply[i] = c;
    }
}

void rule_elastic(const struct server_state *s, const float *sent, float *reply)
{
    elastic(s, sent, reply, false);
}

void rule_elastic_at_once(const struct server_state *s, const float *sent,
                          float *reply)
{
    elastic(s, sent, reply, true);
}

void rule_add(const struct server_state *s, const float *sent, float *reply)
{
    add(s, sent, reply, false);
}

void rule_add_at_once(const struct server_state *s, const float *sent,
                      float *reply)
{
    add(s, sent, reply, true);
}

void rule_momentum(const struct server_state *s, const float *sent,
                   float *reply)
{
    for (size_t i = 0; i < s->count; i++) {
        s->velocity[i] = s->momentum * s->velocity[i] + sent[i];
        s->centre[i] += s->velocity[i];
        reply[i] = s->centre[i];
    }
}
