/* SPDX-License-Identifier: MIT */
/* f16, bf16 and the two f8 formats to and from f32. */
#ifndef OP_CONVERT_H
#define OP_CONVERT_H

#include <stddef.h>

#include "coll/types.h"

/* out[i] = in[i] for i in [0, n), exactly. dtype: F16, BF16 or one of F8. */
void convert_widen(coll_dtype dtype, float *out, const void *in, size_t n);

/* out[i] = in[i], rounded to nearest even. Too large becomes infinity, and
 * NaN in f8e4m3, which has no infinity. A NaN stays one, of the same sign. */
void convert_narrow(coll_dtype dtype, void *out, const float *in, size_t n);

#endif
