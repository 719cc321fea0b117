/* SPDX-License-Identifier: MIT */
/* A step that ends while gradients still travel: the optimiser moves a layer's
 * weights once they have come, directly before the next forward reads them. */
#ifndef TRAINER_LATE_H
#define TRAINER_LATE_H

#include "train.h"

/* Once, when the strategy is open: lets forwards of the net ask for weights. */
void late_open(struct train *);

/* Whether the next step may end so: nobody looks at the weights after it but
 * the next forward of this train_run(..., until, ...). The same on all ranks.
 */
bool late_may(const struct train *, long until);

/* In place of update_step(), after a step that did. */
void late_leave(struct train *, double lr, long number);

/* Moves what has not moved; nothing if all has. */
coll_status late_catch_up(struct train *);

#endif
