/* SPDX-License-Identifier: MIT */
/* How far a kernel is from the definition. */
#ifndef TRAINER_BENCH_ERROR_H
#define TRAINER_BENCH_ERROR_H

#include "crew.h"
#include "kernels/conv.h"

/* The problem on which errors are found: itself if that is cheap; else of fewer
 * images, and of fewer rows and columns, with the same channels, windows,
 * strides and padding, that the method computes in the same way. */
struct conv error_conv(const struct conv *, const struct conv_method *,
                       enum conv_pass);

/* max |found - reference| / max |reference| over the whole result of the pass
 * on error_conv(), with random inputs in [-1, 1], by all threads; infinite
 * where a number is none, or is not written. Less than 0: no memory. */
double error_of(const struct conv *, bool bias, const struct conv_method *,
                enum conv_pass, struct crew *);

/* What error_of() may be. Rounding errors of a sum of d products are random and
 * so grow as its square root, to which also its result is in proportion; the
 * worst of many is some times that. */
double error_bound(const struct conv *, const struct conv_method *,
                   enum conv_pass);

#endif
