/* SPDX-License-Identifier: MIT */
/* --net NAME|FILE, which several programs have. */
#ifndef TRAINER_NET_OPTION_H
#define TRAINER_NET_OPTION_H

#include "programs/options.h"

/* The text of a built-in net, else of a file; the caller frees it. Ends the
 * program with status 2 if there is neither. */
char *net_option(const struct program *, const char *name);

#endif
