/* SPDX-License-Identifier: MIT */
/* Runs of a plain tensor's floats to positions of 16 channels, compiled for
 * each row of isas.def. */
#ifndef TRAINER_KERNELS_SPREAD_H
#define TRAINER_KERNELS_SPREAD_H

/* What one position has of one run. */
struct spread_run {
    const float *from;
    int channel, count; /* where it goes, of the 16 */
};

struct spread_loops {
    /* Of n positions; at each runs begin `stride` floats further. Channels that
     * are no run's become 0. */
    void (*spread)(const struct spread_run *, int nruns, int stride, int n,
                   float *to);
};

#define ISA(name) extern const struct spread_loops spread_##name;
#include "kernels/isas.def"
#undef ISA

#endif
