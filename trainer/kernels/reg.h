/* SPDX-License-Identifier: MIT */
/* A register of CONV_LANES floats, for files compiled for each row of
 * isas.def, and the name of what such a file gives. */
#ifndef TRAINER_KERNELS_REG_H
#define TRAINER_KERNELS_REG_H

#include "tensor.h"

#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define INLINE     static inline __attribute__((always_inline))

enum { LANES = CONV_LANES, PARTS = BLOCK / LANES };

typedef float reg __attribute__((vector_size(4 * CONV_LANES)));
/* As floats lie in memory. */
typedef float vec
    __attribute__((vector_size(4 * CONV_LANES), aligned(4), may_alias));
typedef int mask __attribute__((vector_size(4 * CONV_LANES)));

INLINE reg load(const float *x)
{
    return *(const vec *)x;
}

INLINE void store(float *x, reg v)
{
    *(vec *)x = v;
}

/* a where m is set, else b. */
INLINE reg choose(mask m, reg a, reg b)
{
    return (reg)(((mask)a & m) | ((mask)b & ~m));
}

INLINE int least(int a, int b)
{
    return a < b ? a : b;
}

#endif
