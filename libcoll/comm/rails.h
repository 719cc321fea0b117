/* SPDX-License-Identifier: MIT */
/* Which of the networks that reach all hosts carry messages, and how much. */
#ifndef COMM_RAILS_H
#define COMM_RAILS_H

#include <stdbool.h>

/* rates: bytes per second of n networks, the first of which is that by which
 * the ranks met; 0: unknown. Writes which are used, the one for short messages
 * first, and the share of each. Returns how many, from 1 to most. named: the
 * user wants them all, in that order. Pure: all ranks come to the same. */
int rails_choose(const double *rates, int n, bool named, int most, int *used,
                 int *share);

#endif
