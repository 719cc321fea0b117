/* SPDX-License-Identifier: MIT */
/* For kernels that treat each channel by itself, of tensors that are (image,
 * channel, place): pieces of a channel are dealt to the CPEs, and register
 * messages add up their 64 sums along rows and columns. */
#ifndef TRAINER_KERNELS_SW_SW_CHANNELS_H
#define TRAINER_KERNELS_SW_SW_CHANNELS_H

#include <stdbool.h>

#include "kernels/sw/sw_port.h"

struct sw_channels {
    int n, c, places;
};

/* The sum over all 64, at all 64. */
struct sw_vector sw_sum_all(struct sw_cpe *, struct sw_vector);

/* What a CPE has at hand: room for a piece, twice. */
struct sw_bench {
    struct sw_cpe *cpe;
    struct sw_channels shape;
    float *x, *y;
};
struct sw_bench sw_bench_of(struct sw_cpe *, struct sw_channels);

struct sw_piece {
    int turn; /* of this CPE */
    size_t first;
    int count;
};

/* The next piece of a channel that this CPE has; turn starts as -1. */
bool sw_piece_next(const struct sw_bench *, int channel, struct sw_piece *);

/* A number from memory, by way of x; and one to it, from the first CPE only. */
double sw_one(struct sw_bench *, const float *from);
void sw_put_one(struct sw_bench *, double, float *to);

#endif
