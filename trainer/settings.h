/* SPDX-License-Identifier: MIT */
/* What a training is to do, of what the command line of `coll_train` says. */
#ifndef TRAINER_SETTINGS_H
#define TRAINER_SETTINGS_H

#include "command_line.h"
#include "train.h"

/* Ends the program with status 2 where options do not fit together. Also
 * chooses the kernels, which are of the process. net_text is the caller's to
 * free; "stop" and "began" are left to it. */
struct train_settings settings_of(const struct options *);

#endif
