/* SPDX-License-Identifier: MIT */
/* Reductions of any number of vectors, element by element. */
#ifndef OP_OP_H
#define OP_OP_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/types.h"

enum { OP_NDTYPES = COLL_F8E5M2 + 1, OP_NOPS = COLL_LOR + 1 };

/* dst[j][i] = src[0][i] op src[1][i] op ... op src[nsrc - 1][i] for i in [0, n)
 * and each j in [0, ndst). nsrc and ndst are at least 1.
 *
 * In pairs: neighbours are combined two by two, the lower first, and then what
 * they come to, until one is left; one that has no neighbour waits. So five are
 * ((s0 op s1) op (s2 op s3)) op s4, as on a binomial tree of as many ranks.
 *
 * f16, bf16 and f8 are computed in f32 and rounded once, at the end, to
 * nearest even. COLL_AVG sums and then divides by divisor, before the rounding,
 * integers towards zero; other ops do not look at divisor. No instruction set
 * gives other bits than the next, but for those of a NaN.
 *
 * A dst may be a src or another dst; no other overlap. Aligned to the element
 * only. stream: stores that go past the caches to every dst that lies as dst[0]
 * does in a cache line, with the fence behind them; x86-64 only, elsewhere
 * ordinary stores. */
typedef void combine_fn(void *const *dst, int ndst, const void *const *src,
                        int nsrc, size_t n, int divisor, bool stream);

/* How elements are combined. */
struct combine {
    combine_fn *kernel; /* NULL: by the caller's function */
    coll_red_function *function;
    void *context;
    coll_dtype dtype;
};

/* By the fastest kernel for this CPU, or NULL if op is not defined on dtype.
 * Static storage. */
const struct combine *op_combine(coll_dtype dtype, coll_op op);

/* By a function, two vectors at a time, from src[0] on and not in pairs. */
void op_run_function(const struct combine *, void *const *dst, int ndst,
                     const void *const *src, int nsrc, size_t n);

/* As a combine_fn; of a function there is neither divisor nor stream, and it
 * goes from src[0] on. */
static inline void op_run(const struct combine *c, void *const *dst, int ndst,
                          const void *const *src, int nsrc, size_t n,
                          int divisor, bool stream)
{
    if (c->kernel)
        c->kernel(dst, ndst, src, nsrc, n, divisor, stream);
    else
        op_run_function(c, dst, ndst, src, nsrc, n);
}

/* x[i] * *scalar in dst, as COLL_PROD has it. dst may be x. */
void op_scale(coll_dtype dtype, const void *scalar, void *dst, const void *x,
              size_t n);

/* Whether sums of it depend on their order. */
static inline bool op_rounds(coll_dtype dtype)
{
    return dtype >= COLL_F16;
}

/* Whether they are rounded so roughly that it is to be done once. */
static inline bool op_narrow(coll_dtype dtype)
{
    return dtype == COLL_F16 || dtype == COLL_BF16 || dtype == COLL_F8E4M3
           || dtype == COLL_F8E5M2;
}

/* COLL_AVG: x[i] = x[i] / nranks; other ops: nothing. For who had to combine
 * by parts, with divisor 1. */
void op_finish(coll_dtype dtype, coll_op op, void *x, size_t n, int nranks);

/* Copies src to each dst; overlap and stream as above. */
void op_copy(void *const *dst, int ndst, const void *src, size_t bytes,
             bool stream);

/* Every instruction set of this build, best first, for tests: each is compared
 * with the last, "scalar". */
struct op_isa {
    const char *name;
    bool (*supported)(void);
    combine_fn *const (*kernels)[OP_NOPS]; /* [dtype][op] */
};
extern const struct op_isa op_isas[];
extern const int nop_isas;

#endif
