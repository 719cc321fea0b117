/* SPDX-License-Identifier: MIT */
/* Channel by channel: batch normalisation, and scale with bias. Tensors are
 * (image, channel, place), and sums of their numbers are of double. */
#ifndef TRAINER_KERNELS_SW_SW_NORM_H
#define TRAINER_KERNELS_SW_SW_NORM_H

#include "kernels/sw/sw_channels.h"

/* y = (x - mean) / sqrt(variance + eps), with those of this batch, which are
 * written to mean and variance; or, if global, with those that are there. */
struct sw_norm {
    struct sw_channels shape;
    const float *x;
    float *y, *mean, *variance; /* of c channels */
    float eps;
    int global;
};
const char *sw_norm(struct sw_machine *, const struct sw_norm *);

/* dx from x, dy, mean and variance; global as it was forward. */
struct sw_norm_backward {
    struct sw_channels shape;
    const float *x, *dy, *mean, *variance;
    float *dx;
    float eps;
    int global;
};
const char *sw_norm_backward(struct sw_machine *,
                             const struct sw_norm_backward *);

/* y = factor x + bias; either may be NULL, for 1 and 0. */
struct sw_scale {
    struct sw_channels shape;
    const float *x, *factor, *bias;
    float *y;
};
const char *sw_scale(struct sw_machine *, const struct sw_scale *);

/* dfactor = sum of dy x and dbias = sum of dy, of each channel. */
struct sw_scale_backward {
    struct sw_channels shape;
    const float *x, *dy;
    float *dfactor, *dbias;
};
const char *sw_scale_backward(struct sw_machine *,
                              const struct sw_scale_backward *);

#endif
