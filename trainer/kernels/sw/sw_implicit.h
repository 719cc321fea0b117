/* SPDX-License-Identifier: MIT */
/* Convolution without a column matrix, from memory in the layouts
 *
 *     input    (row, column, channel, image)
 *     weights  (row, column, output channel, input channel)
 *     output   (row, column, channel, image)
 *
 * CPE (row, column) has of the input a row-th of the images and a column-th
 * of the channels, of the weights a column-th of the outputs and a row-th of
 * the inputs, and of the output a row-th of the images and a column-th of the
 * channels. */
#ifndef TRAINER_KERNELS_SW_SW_IMPLICIT_H
#define TRAINER_KERNELS_SW_SW_IMPLICIT_H

#include "kernels/sw/sw_plan.h"
#include "kernels/sw/sw_port.h"

struct sw_implicit {
    struct sw_geometry geometry;
    struct sw_plan plan;
    const float *in, *weights;
    float *out;
};

/* Every element of out is written. NULL, or what the machine found wrong. */
const char *sw_implicit(struct sw_machine *, const struct sw_implicit *);

#endif
