/* SPDX-License-Identifier: MIT */
/* Local response normalisation over neighbouring channels, as
 * trainer/layer/lrn.c has it, of tensors that are (image, channel, place).
 * Blocks of places and of channels, these with the neighbours that they see,
 * are dealt to the CPEs. */
#ifndef TRAINER_KERNELS_SW_SW_LRN_H
#define TRAINER_KERNELS_SW_SW_LRN_H

#include "kernels/sw/sw_channels.h"
#include "kernels/sw/sw_counts.h"

/* s = k + alpha / size times the sum of x^2 over a window of `size` channels,
 * an odd number up to 1023; y = x s^-beta. */
struct sw_lrn {
    struct sw_channels shape;
    int size;
    float alpha, beta, k;
    const float *x;
    float *s, *y;
};
const char *sw_lrn(struct sw_machine *, const struct sw_lrn *);

struct sw_lrn_backward {
    struct sw_channels shape;
    int size;
    float alpha, beta;
    const float *x, *y, *s, *dy;
    float *dx;
};
const char *sw_lrn_backward(struct sw_machine *,
                            const struct sw_lrn_backward *);

/* Neighbours of a block of channels are read with each block that sees them. */
struct sw_bytes sw_lrn_bytes(struct sw_channels, int size);
struct sw_bytes sw_lrn_backward_bytes(struct sw_channels, int size);

#endif
