/* SPDX-License-Identifier: MIT */
/* How much of a plane the pooling kernels have at a time. */
#ifndef TRAINER_KERNELS_SW_SW_POOL_PLAN_H
#define TRAINER_KERNELS_SW_SW_POOL_PLAN_H

#include "kernels/sw/sw_pool.h"

/* Rows of a plane, or of windows: from first to before end. */
struct sw_pool_rows {
    int first, end;
};

/* Rows that windows see, and windows that see rows. */
struct sw_pool_rows sw_pool_seen(const struct sw_pool *,
                                 struct sw_pool_rows windows);
struct sw_pool_rows sw_pool_seeing(const struct sw_pool *, struct sw_pool_rows);

/* One plane by bands, or several whole ones. */
struct sw_pool_cut {
    int planes; /* at a time, if the band is all of them */
    int band;   /* windows forward, rows backward */
    long floats;
};

struct sw_pool_cut sw_pool_forward_cut(const struct sw_pool *);
struct sw_pool_cut sw_pool_backward_cut(const struct sw_pool *);

#endif
