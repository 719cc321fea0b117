/* SPDX-License-Identifier: MIT */
/* Gradients that are not there until weights move. A dense layer's is a sum
 * over images of products, dy^T x: its factors, rows of x and dy, are far fewer
 * numbers than the weights where images are few. Ranks exchange these instead
 * (sufficient factors: Xie et al., UAI 2016; Zhang et al., Poseidon, USENIX ATC
 * 2017), and each works out the whole gradient, some rows at a time in scratch
 * memory, which the optimiser takes.
 *
 * Only the last layers that have parameters can, some that follow each other:
 * what is left stays one vector. */
#ifndef TRAINER_NET_FACTOR_H
#define TRAINER_NET_FACTOR_H

#include "net/net.h"

/* How many of the last layers with parameters can have factors. */
int net_factorable(const struct net *);

/* Layers with parameters: the last n before `after` others. */
struct factor_span {
    int n, after;
};

/* What these would have. */
struct factor_sizes {
    size_t params; /* that have no gradients then */
    size_t floats; /* of an image's factors */
};
struct factor_sizes net_factor_sizes(const struct net *, struct factor_span);

/* Once, before net_backward(): these have factors, and no gradients. There is
 * room for the images of nparts nets like this, one after another; this one
 * writes the part that is its own. -1: no memory. */
int net_factor(struct net *, struct factor_span, int nparts, int part);

/* Whether a parameter's layer has factors. */
bool net_is_factored(const struct net *, size_t param);

/* Where in grads a parameter's gradient is; if it has none, where those of the
 * layers after it begin. */
size_t net_gradient_at(const struct net *, size_t param);

/* The layer's, of all parts. */
struct factors net_factors_of(const struct net *, const struct layer *);

#endif
