/* SPDX-License-Identifier: MIT */
/* Floats in fewer bytes, and back, compiled for each row of isas.def.
 *
 * What is decoded depends on the bytes only, not on who decodes: each number is
 * one product, rounded once. */
#ifndef TRAINER_KERNELS_CODE_H
#define TRAINER_KERNELS_CODE_H

#include <stddef.h>
#include <stdint.h>

/* Floats that share a scale in int8. */
enum { CODE_BLOCK = 256 };

struct code_loops {
    void (*add)(const float *from, size_t n, float *x); /* to x */
    /* To the nearest, ties to even; a NaN stays one. */
    void (*to_bf16)(const float *x, size_t n, uint16_t *to);
    void (*from_bf16)(const uint16_t *from, size_t n, float *x);
    void (*add_bf16)(const uint16_t *from, size_t n, float *x);
    /* One block of n <= CODE_BLOCK: encodes x + lost, and leaves in lost what
     * the code has not: at most half the scale, which is the largest number
     * over 127. Numbers so small that this has no inverse are lost whole. A NaN
     * or an infinity makes all of the block NaN. */
    float (*to_int8)(const float *x, float *lost, size_t n, int8_t *to);
    void (*from_int8)(const int8_t *from, float scale, size_t n, float *x);
    void (*add_int8)(const int8_t *from, float scale, size_t n, float *x);
};

#define ISA(name) extern const struct code_loops code_##name;
#include "kernels/isas.def"
#undef ISA

#endif
