/* SPDX-License-Identifier: MIT */
/* Which kernels this CPU can run: asked once. This file is compiled for every
 * CPU, unlike combine.c. */
#include "op/op.h"

#include <pthread.h>
#include <string.h>

#include "op/isas.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* clang 14 does not know "f16c" in __builtin_cpu_supports(). */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Both also ask whether the operating system keeps the registers. */
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f")
           && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vl");
}
#endif

#if defined(__aarch64__)
static bool has_neon(void)
{
    return true; /* part of the architecture */
}
#endif

static bool has_scalar(void)
{
    return true;
}

const struct op_isa op_isas[] = {
#define ISA(name) {#name, has_##name, combine_##name},
#include "op/isas.def"
#undef ISA
};
const int nop_isas = sizeof op_isas / sizeof op_isas[0];

static struct combine best[OP_NDTYPES][OP_NOPS];
static pthread_once_t choose_once = PTHREAD_ONCE_INIT;

static void choose(void)
{
    const struct op_isa *isa = op_isas;
    while (!isa->supported())
        isa++;
    for (int d = 0; d < OP_NDTYPES; d++)
        for (int op = 0; op < OP_NOPS; op++)
            best[d][op].kernel = isa->kernels[d][op];
}

const struct combine *op_combine(coll_dtype dtype, coll_op op)
{
    pthread_once(&choose_once, choose);
    if ((unsigned)dtype >= OP_NDTYPES || (unsigned)op >= OP_NOPS
        || !best[dtype][op].kernel)
        return NULL;
    return &best[dtype][op];
}

void op_finish(coll_dtype dtype, coll_op op, void *x, size_t n, int nranks)
{
    const void *const src = x;
    if (op == COLL_AVG)
        op_run(op_combine(dtype, op), &x, 1, &src, 1, n, nranks, false);
}

void op_copy(void *const *dst, int ndst, const void *src, size_t bytes,
             bool stream)
{
    enum { SHORT = 256 }; /* bytes; below, one memcpy() a dst is faster */
    if (bytes >= SHORT && (ndst > 1 || stream)) {
        op_run(op_combine(COLL_U8, COLL_BOR), dst, ndst, &src, 1, bytes, 1,
               stream);
        return;
    }
    for (int j = 0; j < ndst; j++)
        if (dst[j] != src)
            memcpy(dst[j], src, bytes);
}
