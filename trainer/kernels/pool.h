/* SPDX-License-Identifier: MIT */
/* The largest of each window of a plane of 16 channels, compiled for each row
 * of isas.def. Forward notes which element of its window that is, the first of
 * equal ones, so that backward reads neither x nor y and writes dx once: each
 * element asks the windows that it lies in. */
#ifndef TRAINER_KERNELS_POOL_H
#define TRAINER_KERNELS_POOL_H

#include <stdbool.h>
#include <stddef.h>

struct pool {
    int kernel_h, kernel_w, stride_h, stride_w, pad;
    int h, w, out_h, out_w;
    bool half; /* all tensors are bf16, two numbers in a float's place */
    bool relu; /* y is that or 0: then no element is it, nor has a gradient */
};

/* Of one of 16 elements, row by row, or none: a byte does for most windows. */
static inline size_t pool_note_bytes(int kernel_h, int kernel_w)
{
    return (long long)kernel_h * kernel_w < 256 ? 1 : 4;
}

struct pool_loops {
    void (*forward)(const struct pool *, const float *x, float *y,
                    unsigned char *notes);
    void (*backward)(const struct pool *, const unsigned char *notes,
                     const float *dy, float *dx);
};

#define ISA(name) extern const struct pool_loops pool_##name;
#include "kernels/isas.def"
#undef ISA

#endif
