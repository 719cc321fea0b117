/* SPDX-License-Identifier: MIT */
/* Where a net's activations and their gradients lie. */
#ifndef TRAINER_NET_PLACE_H
#define TRAINER_NET_PLACE_H

#include "net/net.h"

/* How tensors lie in memory, of a net whose layers are known and fused: sets
 * plain and the layers' learns, adds, plain, half and half_x. */
void net_lay_out(struct net *);

/* The same, and where: allocates work, y, dy, images and spare. -1 if there is
 * no memory; what was set is net_free()'s. */
int net_place(struct net *);

#endif
