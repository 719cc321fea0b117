/* SPDX-License-Identifier: MIT */
/* How Winograd's algorithm goes through the LDM, in formulas: blocks, bytes,
 * products. A plan of a pass forward has other limits than one of the gradient
 * of the window. */
#ifndef TRAINER_KERNELS_SW_SW_WINOGRAD_PLAN_H
#define TRAINER_KERNELS_SW_SW_WINOGRAD_PLAN_H

#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_plan.h"
#include "kernels/sw/sw_winograd_form.h"

struct sw_winograd_plan {
    enum sw_form_name form;
    int images, outputs; /* of a block; they divide those that there are */
    int inputs;          /* of a block of the gradient; else all */
    int tiles;           /* side by side, that are in the LDM at a time */
};

/* Tiles of y. */
static inline int sw_tiles_down(const struct sw_geometry *g,
                                enum sw_form_name form)
{
    return sw_parts(g->out_h, sw_forms[form].out);
}

static inline int sw_tiles_across(const struct sw_geometry *g,
                                  enum sw_form_name form)
{
    return sw_parts(g->out_w, sw_forms[form].out);
}

/* Whether the pass of a convolution can go this way at all: 3x3 with stride and
 * dilation 1, and a mesh that can be dealt. */
bool sw_winograd_can(const struct conv *, enum conv_pass);

/* As its kernels see a pass: that of the gradient of the window is the one of
 * the pass forward. */
struct sw_geometry sw_winograd_geometry(const struct conv *, enum conv_pass);

/* What a plan takes of the LDM of one CPE. */
size_t sw_winograd_ldm_bytes(const struct sw_geometry *, enum conv_pass,
                             struct sw_winograd_plan);

/* The plan that is modelled the fastest, of those that fit. False if none
 * does. */
bool sw_winograd_best(const struct sw_geometry *, enum conv_pass,
                      struct sw_winograd_plan *);

/* Bytes of DMA, messages and instructions of a pass, with the transformation of
 * the weights; and how many of the bytes come while products are made. */
struct sw_winograd_counts {
    struct sw_counts all;
    size_t covered_bytes;
};
struct sw_winograd_counts sw_winograd_counts(const struct sw_geometry *,
                                             enum conv_pass,
                                             struct sw_winograd_plan);

#endif
