/* SPDX-License-Identifier: MIT */
/* Dropout in training, as trainer/layer/dropout.c has it: a number becomes 0
 * by chance, or is divided by what the chance leaves. The chance of each
 * depends on the seed, its image's place in the global batch and its own in the
 * image only, so that it is drawn again on the way back instead of being kept
 * in memory. */
#ifndef TRAINER_KERNELS_SW_SW_DROPOUT_H
#define TRAINER_KERNELS_SW_SW_DROPOUT_H

#include <stdint.h>

#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_port.h"

/* y from x, and dx from dy. to may be from. */
struct sw_dropout {
    const float *from;
    float *to;
    size_t image; /* numbers of one, in the order that chances go by */
    int n;
    float rate; /* 0 to below 1 */
    uint64_t seed, first_image;
};
const char *sw_dropout(struct sw_machine *, const struct sw_dropout *);

struct sw_bytes sw_dropout_bytes(const struct sw_dropout *);

#endif
