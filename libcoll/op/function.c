/* SPDX-License-Identifier: MIT */
/* What is not done by a kernel alone: functions of the caller's, and a vector
 * times a number. */
#include "op/op.h"

#include <string.h>

/* What is under way of a function's result stays in the first-level cache. */
enum { BLOCK_BYTES = 4096 };

/* A dst may be any of the src, so the result lies apart until all were read. */
static void run_block(const struct combine *c, void *const *dst, int ndst,
                      const void *const *src, int nsrc, size_t at, size_t n)
{
    _Alignas(64) char result[BLOCK_BYTES];
    const size_t bytes = n * coll_dtype_bytes(c->dtype);
    const void *so_far = (const char *)src[0] + at;
    for (int i = 1; i < nsrc; i++) {
        c->function(result, so_far, (const char *)src[i] + at, n, c->dtype,
                    c->context);
        so_far = result;
    }
    for (int j = 0; j < ndst; j++)
        memmove((char *)dst[j] + at, so_far, bytes);
}

void op_run_function(const struct combine *c, void *const *dst, int ndst,
                     const void *const *src, int nsrc, size_t n)
{
    const size_t elem = coll_dtype_bytes(c->dtype), most = BLOCK_BYTES / elem;
    if (nsrc == 2 && ndst == 1) {
        c->function(dst[0], src[0], src[1], n, c->dtype, c->context);
        return;
    }
    for (size_t first = 0; first < n; first += most)
        run_block(c, dst, ndst, src, nsrc, first * elem,
                  n - first < most ? n - first : most);
}

void op_scale(coll_dtype dtype, const void *scalar, void *dst, const void *x,
              size_t n)
{
    _Alignas(64) char factors[BLOCK_BYTES];
    const size_t elem = coll_dtype_bytes(dtype), most = BLOCK_BYTES / elem;
    const struct combine *const product = op_combine(dtype, COLL_PROD);
    for (size_t i = 0; i < most && i < n; i++)
        memcpy(factors + i * elem, scalar, elem);
    for (size_t first = 0; first < n; first += most) {
        void *const to = (char *)dst + first * elem;
        const void *const src[] = {(const char *)x + first * elem, factors};
        op_run(product, &to, 1, src, 2, n - first < most ? n - first : most, 1,
               false);
    }
}
