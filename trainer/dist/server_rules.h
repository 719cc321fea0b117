/* SPDX-License-Identifier: MIT */
/* What a server does to the centre C with what one worker sends, element by
 * element (You, Buluc, Demmel, SC17):
 *
 *     elastic     reply C, then C = C + alpha (W - C)              sent: W
 *     add         C = C + U, then reply C                          sent: U
 *     momentum    V = momentum V + U, C = C + V, then reply C      sent: U
 *
 * U is the step that a worker would take: -lr (G + decay W) of its gradient G,
 * or what the elastic force moves the centre by. */
#ifndef TRAINER_DIST_SERVER_RULES_H
#define TRAINER_DIST_SERVER_RULES_H

#include <stddef.h>

struct server_state {
    float *centre, *velocity; /* velocity: of momentum only */
    size_t count;
    float alpha, momentum;
};

/* sent: count floats, or NULL: the centre is only read. reply: so many, or
 * NULL.
 */
typedef void server_rule(const struct server_state *, const float *sent,
                         float *reply);
server_rule rule_elastic, rule_add, rule_momentum;
/* The same by several threads at once: one's change may be lost, whole floats
 * are never torn. */
server_rule rule_elastic_at_once, rule_add_at_once;

#endif
