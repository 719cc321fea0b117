/* SPDX-License-Identifier: MIT */
/* Where a net's activations and their gradients lie. */
#ifndef TRAINER_NET_PLACE_H
#define TRAINER_NET_PLACE_H

#include "net/net.h"

/* Of a net whose layers are known: sets plain and the layers' learns, adds and
 * plain; allocates work, y, dy, images and spare. -1 if there is no memory;
 * what was set is net_free()'s. */
int net_place(struct net *);

#endif
