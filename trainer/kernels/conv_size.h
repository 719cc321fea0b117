/* SPDX-License-Identifier: MIT */
/* How large a convolution is. */
#ifndef TRAINER_KERNELS_CONV_SIZE_H
#define TRAINER_KERNELS_CONV_SIZE_H

#include "kernels/conv.h"

/* Numbers of a plain x, y and w. */
size_t conv_inputs(const struct conv *);
size_t conv_outputs(const struct conv *);
size_t conv_weights(const struct conv *);

/* Two for each multiply-add of the definition, of any pass: all windows count
 * in full, and so do the zeros around the image. */
double conv_flops(const struct conv *);

/* Whether each position of x is under some window's tap, if windows are enough:
 * strides leave no gaps. */
bool conv_reaches_all(const struct conv *);

#endif
