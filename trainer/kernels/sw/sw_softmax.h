/* SPDX-License-Identifier: MIT */
/* The log of softmax over rows of classes, and back, as
 * trainer/layer/softmax_loss.c has it: what the cross entropy is made of. Rows
 * are dealt to the CPEs, short ones several at a time; of one that is longer
 * than a piece of the LDM, the pieces pass several times. */
#ifndef TRAINER_KERNELS_SW_SW_SOFTMAX_H
#define TRAINER_KERNELS_SW_SW_SOFTMAX_H

#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_port.h"

/* y = x - log(sum of exp x), row by row. */
struct sw_softmax {
    int n, classes;
    const float *x;
    float *y;
};
const char *sw_softmax(struct sw_machine *, const struct sw_softmax *);

/* dx = dy - exp(y) times the sum of dy, row by row. */
struct sw_softmax_backward {
    int n, classes;
    const float *y, *dy;
    float *dx;
};
const char *sw_softmax_backward(struct sw_machine *,
                                const struct sw_softmax_backward *);

struct sw_bytes sw_softmax_bytes(int n, int classes);
struct sw_bytes sw_softmax_backward_bytes(int n, int classes);

#endif
