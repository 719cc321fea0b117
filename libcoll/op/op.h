/* SPDX-License-Identifier: MIT */
/* Reductions of two vectors, element by element. */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/types.h"

/* dst[i] = a[i] op b[i] for i in [0, n). dst may be a or b; no other overlap.
 * Aligned to the element only. COLL_AVG reduces as COLL_SUM does; op_finish()
 * then divides. f16, bf16 and f8 are computed in f32 and rounded to nearest
 * even at each call. */
typedef void reduce_fn(void *dst, const void *a, const void *b, size_t n);

/* The fastest kernel for this CPU, or NULL if op is not defined on dtype. */
reduce_fn *op_reduce(coll_dtype dtype, coll_op op);

/* COLL_AVG: x[i] = x[i] / nranks; other ops: nothing. */
void op_finish(coll_dtype dtype, coll_op op, void *x, size_t n, int nranks);

/* Every kernel this build has, for tests: each is compared with "scalar". */
struct op_kernel {
    const char *isa; /* "scalar", "avx2", "avx512", "neon" */
    coll_dtype dtype;
    coll_op op;
    reduce_fn *reduce;
    bool (*supported)(void);
};
extern const struct op_kernel op_kernels[]; /* best first */
extern const int nop_kernels;
reduce_fn *op_reduce_scalar(coll_dtype dtype, coll_op op);

#endif
