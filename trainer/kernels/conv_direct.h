/* SPDX-License-Identifier: MIT */
/* Direct convolution with the tiles of some instruction set, for floats or for
 * pairs of bf16: struct conv_method, but for the first argument. */
#ifndef TRAINER_KERNELS_CONV_DIRECT_H
#define TRAINER_KERNELS_CONV_DIRECT_H

#include "kernels/conv_tile.h"

size_t direct_scratch(const struct conv_isa *, const struct conv *,
                      enum conv_pass);
void direct_forward(const struct conv_isa *, const struct conv *,
                    const float *x, const float *w, const float *bias, float *y,
                    float *scratch);
void direct_backward_data(const struct conv_isa *, const struct conv *,
                          const float *dy, const float *w, float *dx,
                          float *scratch);
void direct_backward_weights(const struct conv_isa *, const struct conv *,
                             const float *x, const float *dy, float *dw,
                             float *scratch);

/* The same where there are wide sums. */
void wide_backward_weights(const struct conv_isa *, const struct conv *,
                           const float *x, const float *dy, float *dw,
                           float *scratch);

/* direct_scratch()'s for them. */
size_t direct_scratch_of_weights(const struct conv_isa *, const struct conv *);
size_t wide_scratch_of_weights(const struct conv *);

#endif
