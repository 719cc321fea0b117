/* SPDX-License-Identifier: MIT */
/* Gradients that are not there until weights move. A dense layer's is a sum
 * over images of products, dy^T x: its factors, rows of x and dy, are far fewer
 * numbers than the weights where images are few. Ranks exchange these instead
 * (sufficient factors: Xie et al., UAI 2016; Zhang et al., Poseidon, USENIX ATC
 * 2017), and each works out the whole gradient in tiles, which the optimiser
 * takes while they are in a cache: no memory has it.
 *
 * Only the last layers that have parameters can: what is before them stays one
 * vector. */
#ifndef TRAINER_NET_FACTOR_H
#define TRAINER_NET_FACTOR_H

#include "net/net.h"

/* How many of the last layers with parameters can have factors. */
int net_factorable(const struct net *);

/* What so many would have. */
struct factor_sizes {
    size_t params; /* that have no gradients then */
    size_t floats; /* of an image's factors */
};
struct factor_sizes net_factor_sizes(const struct net *, int n);

/* Once, before net_backward(): n of them have factors, and no gradients. There
 * is room for the images of nparts nets like this, one after another; this one
 * writes the part that is its own. -1: no memory. */
int net_factor(struct net *, int n, int nparts, int part);

/* The layer's, of all parts. */
struct factors net_factors_of(const struct net *, const struct layer *);

#endif
