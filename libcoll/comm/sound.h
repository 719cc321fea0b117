/* SPDX-License-Identifier: MIT */
/* How far other ranks are, found of all of them at once.
 *
 * One after another, links of milliseconds would take a round trip for each
 * pair. Replies to several at the same time come later by the work of the
 * others, so this tells no more than whether a way is long, and how long.
 */
#ifndef COMM_SOUND_H
#define COMM_SOUND_H

#include "comm/pair.h"

/* The least round trip to each of n peers, at most PAIR_MESSAGES, in seconds;
 * both ends get the same number. One round trip and a half, where ranks
 * outnumber processors two and a half. All peers call it. Fails as messages
 * do. */
coll_status sound_peers(struct pair_meter *, const int *peers, int n,
                        double *round_trip);

#endif
