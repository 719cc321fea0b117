/* SPDX-License-Identifier: MIT */
/* Pooling of planes (image, channel) of rows and columns. Planes are dealt to
 * the CPEs: small ones several at a time, in one transfer, large ones in bands
 * of rows that the LDM holds. */
#ifndef TRAINER_KERNELS_SW_SW_POOL_H
#define TRAINER_KERNELS_SW_SW_POOL_H

#include <stdbool.h>

#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_port.h"

struct sw_pool {
    int planes, h, w;
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int out_h, out_w;
    bool average; /* of what is inside the plane; else the largest */
};

/* NULL, or why not. Each window must see the plane. */
const char *sw_pool_cannot(const struct sw_pool *);

const char *sw_pool(struct sw_machine *, const struct sw_pool *, const float *x,
                    float *y);

/* dx, all of which is written. The largest of a window that has the same
 * several times is the first of them. */
const char *sw_pool_backward(struct sw_machine *, const struct sw_pool *,
                             const float *x, const float *dy, float *dx);

/* What they move: rows that two bands see are read with both. */
struct sw_bytes sw_pool_bytes(const struct sw_pool *);
struct sw_bytes sw_pool_backward_bytes(const struct sw_pool *);

#endif
