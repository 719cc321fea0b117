/* SPDX-License-Identifier: MIT */
/* A convolution and its gradients in double, by loops as plain as the
 * definition. */
#ifndef TRAINER_BENCH_REFERENCE_H
#define TRAINER_BENCH_REFERENCE_H

#include "kernels/conv.h"

/* Adds to result: y of a forward pass, the gradient by x or by w of the others.
 * All are plain, (N, C, H, W) and (K, C/groups, R, S); of x, y and w the one
 * that is the result is not read. bias may be NULL. */
void reference(const struct conv *, enum conv_pass, const float *x,
               const float *y, const float *w, const float *bias,
               double *result);

#endif
