/* SPDX-License-Identifier: MIT */
/* What layers take from the blocked layout to the plain one, or back. */
#ifndef TRAINER_LAYER_REORDERS_H
#define TRAINER_LAYER_REORDERS_H

#include "layer/layer.h"

/* Numbers of activations and their gradients in a step of the largest batch;
 * with or without the gradient of the input. everywhere: if all passes of a
 * convolution went by a column matrix, which is of plain images. */
size_t layer_reorders(const struct layer *, bool data_gradient,
                      bool everywhere);

#endif
