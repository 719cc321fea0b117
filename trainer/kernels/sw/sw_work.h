/* SPDX-License-Identifier: MIT */
/* A convolution under way: what its several kernels share on the host's side.
 * For sw_conv.c and the ways that it goes. */
#ifndef TRAINER_KERNELS_SW_SW_WORK_H
#define TRAINER_KERNELS_SW_SW_WORK_H

#include "kernels/sw/sw_conv.h"
#include "kernels/sw/sw_transform.h"

struct sw_work {
    struct sw_machine *machine;
    const struct sw_conv *job;
    float *scratch; /* NULL where floats are only counted */
    size_t used;
    struct sw_conv_counts counts;
    const char *error; /* the first one */
};

/* So many floats of the scratch. */
float *sw_work_floats(struct sw_work *, size_t count);

/* After each run of a kernel: what it did counts for `sum`. */
void sw_work_settle(struct sw_work *, struct sw_counts *sum, const char *error);

/* Other orders, which count as such. */
void sw_work_transpose(struct sw_work *, struct sw_transpose);
void sw_work_copy(struct sw_work *, struct sw_copy);

/* The ways; without scratch, only the floats are counted. */
void sw_work_implicit(struct sw_work *);
void sw_work_explicit(struct sw_work *);
void sw_work_winograd(struct sw_work *);

#endif
