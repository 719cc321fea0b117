/* SPDX-License-Identifier: MIT */
#ifndef TRAINER_LAYER_BATCHNORM_H
#define TRAINER_LAYER_BATCHNORM_H

#include "layer/layer.h"

/* In evaluation a batchnorm is y = x times + plus, in channel c. */
void batchnorm_factors(const struct layer *, int c, float *times, float *plus);

#endif
