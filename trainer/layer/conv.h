/* SPDX-License-Identifier: MIT */
/* What a conv line of a net asks of the kernels. */
#ifndef TRAINER_LAYER_CONV_H
#define TRAINER_LAYER_CONV_H

#include "kernels/conv.h"
#include "layer/layer.h"

/* For so many images; plain as the layer is. */
struct conv conv_of(const struct layer *, int images);

#endif
