/* SPDX-License-Identifier: MIT */
/* What a convolution will count, without running it, and how long a core
 * group would take for such counts. Nobody has timed this code on a Sunway:
 * seconds are modelled. */
#ifndef TRAINER_KERNELS_SW_SW_COST_H
#define TRAINER_KERNELS_SW_SW_COST_H

#include "kernels/sw/sw_conv.h"
#include "kernels/sw/sw_winograd_plan.h"

/* Bytes of DMA, messages and instructions of sw_conv's work, by formulas. Of a
 * job, the tensors are not looked at. */
struct sw_counts sw_conv_expected(const struct sw_conv *);

/* A core group; see README.md for where the figures are from. */
struct sw_speed {
    double hertz;
    double dma_bytes_per_second; /* all CPEs together */
};
extern const struct sw_speed sw_speed_low, sw_speed_high;

/* Arithmetic and messages are issued side by side, one of each in a cycle:
 * the longer counts. */
struct sw_seconds {
    double arithmetic, messages, dma;
    double one_by_one; /* transfers, and then arithmetic */
    double overlapped; /* the longest of the three */
};
struct sw_seconds sw_model(const struct sw_counts *, struct sw_speed);

/* Of sw_conv's work, by the way that it goes: overlapped if its plan has two
 * buffers. */
double sw_conv_seconds(const struct sw_conv *, struct sw_speed);

/* Of Winograd's algorithm: weights come while others are multiplied. */
double sw_winograd_seconds(const struct sw_winograd_counts *, struct sw_speed);

#endif
