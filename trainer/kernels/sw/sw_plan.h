/* SPDX-License-Identifier: MIT */
/* How an implicit convolution (no column matrix) goes through the LDM, in
 * formulas: which loops, which blocks, how many bytes.
 *
 * All three passes are one convolution with stride 1 to the kernel:
 *
 *     forward   y from x by w
 *     data      dx from dy by w turned round, channels exchanged
 *     weights   dw from x by dy: the images are the channels, the channels
 *               are the images, and dy is the window
 */
#ifndef TRAINER_KERNELS_SW_SW_PLAN_H
#define TRAINER_KERNELS_SW_SW_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/conv.h"

/* As the kernel sees it. */
struct sw_geometry {
    int b, ni, no;  /* images, input and output channels */
    int in_h, in_w; /* rows and columns of the input */
    int kernel_h, kernel_w, pad_h, pad_w;
    int out_h, out_w;
};

struct sw_geometry sw_geometry_of(const struct conv *, enum conv_pass);

/* The two plans of swDNN (Fang et al., IPDPS 2017), each plain or with loads
 * moved out of the innermost loop. */
enum sw_loops {
    /* All images; a column of the input serves every tap that sees it. */
    SW_BATCH_AWARE,
    /* The same, with the weights of a whole window row at a time. */
    SW_BATCH_AWARE_OUTWARD,
    /* Blocks of images; the weights of a tap serve a block of columns. */
    SW_IMAGE_AWARE,
    /* The same, with all columns of the input that the block sees. */
    SW_IMAGE_AWARE_OUTWARD,
    SW_LOOPS
};

struct sw_plan {
    enum sw_loops loops;
    int images, columns; /* of a block of the output */
    /* 1, or 2: while one block of input or weights is multiplied, the next one
     * is on its way. For SW_BATCH_AWARE and SW_IMAGE_AWARE. */
    int buffers;
};

/* What swCaffe's kernels allow themselves of the 64 KB. */
enum { SW_FORWARD_KB = 60, SW_BACKWARD_KB = 55 };

/* swCaffe's CStride: how many columns of the output the LDM holds, at 8 bytes
 * a number, beside the blocks of input and weights, each so many times: 1, or
 * 2 for double buffering. 0 or less: it does not fit. */
int sw_column_stride(const struct sw_geometry *, int kb, int buffers);

/* What a plan takes of the LDM of one CPE. */
size_t sw_plan_ldm_bytes(const struct sw_geometry *, struct sw_plan);

/* The largest blocks that fit. False if none do, or the mesh cannot be
 * dealt: 32 | b, 8 | ni, 8 | no. */
bool sw_plan_fit(const struct sw_geometry *, enum sw_loops, int buffers, int kb,
                 struct sw_plan *);

/* The one that is modelled the fastest: DMA at 16 bytes a cycle, which is 23.2
 * GB/s, and arithmetic, one after the other or, with two buffers, side by
 * side. False if none fits. */
bool sw_plan_best(const struct sw_geometry *, int kb, struct sw_plan *);

/* What it moves: bytes of DMA in and out, and products on the mesh. */
struct sw_traffic {
    size_t in_bytes, weight_bytes, out_bytes, products;
};
struct sw_traffic sw_plan_traffic(const struct sw_geometry *, struct sw_plan);

/* swCaffe's rule for layers: whether the implicit convolution is taken, or
 * else the explicit one. */
bool sw_implicit_is_taken(const struct conv *, enum conv_pass);

/* Whether stride and dilation are 1, and there is one group. */
bool sw_window_is_plain(const struct conv *);

/* Whether the implicit kernels can do it at all. */
bool sw_implicit_can(const struct conv *, enum conv_pass);

#endif
