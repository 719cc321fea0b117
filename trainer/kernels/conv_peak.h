/* SPDX-License-Identifier: MIT */
/* What the multiply-adds of an instruction set could do at best: loops that
 * touch registers only, against which kernels are held. */
#ifndef TRAINER_KERNELS_CONV_PEAK_H
#define TRAINER_KERNELS_CONV_PEAK_H

enum { CONV_PEAK_FLOATS = 16 * 16 }; /* as many as any set keeps busy */

struct conv_peak {
    const char *name;
    double flops; /* of one round; a multiplication and an addition are two */

    /* So many rounds: x, of CONV_PEAK_FLOATS floats that differ, becomes
     * x * factor + summand over and over. Where the set has no fused
     * multiply-add, half of x is multiplied and half of it added to. Of bf16,
     * the products of its pairs are added to x. */
    void (*run)(long rounds, float factor, float summand, float *x);
};

#define ISA(name)                                                              \
    extern const struct conv_peak conv_peak_##name, conv_peak_bf16_##name;
#include "kernels/isas.def"
#undef ISA

#endif
