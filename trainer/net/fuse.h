/* SPDX-License-Identifier: MIT */
/* Layers that do the work of the one behind them, or before them. */
#ifndef TRAINER_NET_FUSE_H
#define TRAINER_NET_FUSE_H

#include "net/net.h"

/* Of a net whose layers are known: lets layers do the relu, and in evaluation
 * the batchnorm, that is the only one to read them. Their scratch may grow. */
void net_fuse(struct net *);

/* Lets the last layer to add to a relu's gradient do the relu's work there; if
 * so, the layer before it may do what is left, forward. By how layers compute,
 * what they add to, and what of them is bf16: after all that is known. */
void net_gate(struct net *);

#endif
