/* SPDX-License-Identifier: MIT */
/* x where it is positive, else x times a slope, one a channel, that is
 * learned: trainer/layer/prelu.c on the machine, of tensors that are (image,
 * channel, place). */
#ifndef TRAINER_KERNELS_SW_SW_PRELU_H
#define TRAINER_KERNELS_SW_SW_PRELU_H

#include "kernels/sw/sw_channels.h"
#include "kernels/sw/sw_counts.h"

struct sw_prelu {
    struct sw_channels shape;
    const float *x, *slope;
    float *y;
};
const char *sw_prelu(struct sw_machine *, const struct sw_prelu *);

/* dx and dslope, which are written. */
struct sw_prelu_backward {
    struct sw_channels shape;
    const float *x, *dy, *slope;
    float *dx, *dslope;
};
const char *sw_prelu_backward(struct sw_machine *,
                              const struct sw_prelu_backward *);

/* What they move: each CPE has each slope. */
struct sw_bytes sw_prelu_bytes(struct sw_channels);
struct sw_bytes sw_prelu_backward_bytes(struct sw_channels);

#endif
