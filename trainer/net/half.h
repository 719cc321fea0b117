/* SPDX-License-Identifier: MIT */
/* Which outputs are bf16 in memory, and their gradients: those that the layer
 * that gives them and all that read them can have so, of nets with convolutions
 * by a method that halves(). */
#ifndef TRAINER_NET_HALF_H
#define TRAINER_NET_HALF_H

#include "net/net.h"

/* Sets half and half_x of each layer, by what else is known of them, and undoes
 * what net_fuse() did where layers' memory differs. */
void net_halve(struct net *);

#endif
