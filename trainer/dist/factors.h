/* SPDX-License-Identifier: MIT */
/* Gradients of dense layers as factors of all ranks, net/factor.h: whether, and
 * their exchange. */
#ifndef TRAINER_DIST_FACTORS_H
#define TRAINER_DIST_FACTORS_H

#include "coll/coll.h"

struct strategy;
struct strategy_settings;

/* FACTORS_AUTO: where that is faster. */
enum factor_choice { FACTORS_AUTO, FACTORS_ON, FACTORS_OFF };

/* NULL, or the option with which a gradient has to be in memory. */
const char *factors_barred(const struct strategy_settings *);

/* On all ranks, before anything knows where the net's gradients lie: gives some
 * layers factors, or none, the same on all. MEMORY, or what the library says.
 */
coll_status factors_open(struct strategy *);

/* Begins to bring this step's factors to all ranks, in place. */
coll_status factors_start(struct strategy *, coll_request **);

#endif
