/* SPDX-License-Identifier: MIT */
/* What tells the strategies with servers apart: the `way` of their
 * strategy_ops. */
#ifndef TRAINER_DIST_SERVERS_H
#define TRAINER_DIST_SERVERS_H

#include "dist/server.h"
#include "dist/worker.h"

struct server_way {
    enum server_order order;
    server_rule *rule;
    const struct worker_way *worker;
};

#endif
