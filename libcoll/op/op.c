/* SPDX-License-Identifier: MIT */
/* Which kernel reduces which dtype and op on this CPU: asked once, then a
 * table. */
#include "op/op.h"

#include <pthread.h>

#include "op/kernels.h"

enum { NDTYPES = COLL_F8E5M2 + 1, NOPS = COLL_LOR + 1 };

const struct op_kernel op_kernels[] = {
#define KERNEL(isa, dtype, op, function)                                       \
    {#isa, dtype, op, function##_##isa, has_##isa},
#include "op/kernels.def"
#undef KERNEL
};
const int nop_kernels = sizeof op_kernels / sizeof op_kernels[0];

static reduce_fn *chosen[NDTYPES][NOPS];
static pthread_once_t choose_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    for (int d = 0; d < NDTYPES; d++)
        for (int o = 0; o < NOPS; o++)
            chosen[d][o] = op_reduce_scalar((coll_dtype)d, (coll_op)o);
    /* Backwards, so that the best is written last. */
    for (int k = nop_kernels - 1; k >= 0; k--)
        if (op_kernels[k].supported())
            chosen[op_kernels[k].dtype][op_kernels[k].op] =
                op_kernels[k].reduce;
    for (int d = 0; d < NDTYPES; d++)
        chosen[d][COLL_AVG] = chosen[d][COLL_SUM];
}

reduce_fn *op_reduce(coll_dtype dtype, coll_op op)
{
    pthread_once(&choose_once, choose);
    if ((unsigned)dtype >= NDTYPES || (unsigned)op >= NOPS)
        return NULL;
    return chosen[dtype][op];
}
