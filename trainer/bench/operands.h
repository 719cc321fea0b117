/* SPDX-License-Identifier: MIT */
/* What a pass reads and writes, in memory as the trainer has it. */
#ifndef TRAINER_BENCH_OPERANDS_H
#define TRAINER_BENCH_OPERANDS_H

#include "crew.h"
#include "kernels/conv.h"

/* Two of x, y and w are inputs and the third is the result: y of a forward
 * pass, the gradient by x or by w of the others. */
struct operands {
    struct arena x, y, w, bias;
    struct arena scratch; /* for each thread */
    struct arena partial; /* gradients by w of threads but the first */
    struct crew *crew;    /* the caller's; NULL: one thread */
};

/* Inputs are random in [-1, 1] and depend on nothing but the shape; the result
 * is zero. -1: no memory, and nothing to free. What the convolution has as bf16
 * (half_x, half_y) the method must, too. */
int operands_create(struct operands *, const struct conv *, bool bias,
                    const struct conv_method *, enum conv_pass, struct crew *);
void operands_free(struct operands *);

/* Numbers of x or y, (N, C, H, W); the caller frees. NULL: no memory. */
float *operands_plain_x(const struct operands *, const struct conv *);
float *operands_plain_y(const struct operands *, const struct conv *);

/* The pass, once: each thread for some of the images, as a net does it. */
void operands_run(struct operands *, const struct conv *,
                  const struct conv_method *, enum conv_pass);

#endif
