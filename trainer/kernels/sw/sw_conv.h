/* SPDX-License-Identifier: MIT */
/* Convolution on a core group, all passes, of tensors as the framework has
 * them: (image, channel, row, column), (output, input, row, column). */
#ifndef TRAINER_KERNELS_SW_SW_CONV_H
#define TRAINER_KERNELS_SW_SW_CONV_H

#include "kernels/conv.h"
#include "kernels/sw/sw_machine.h"
#include "kernels/sw/sw_plan.h"
#include "kernels/sw/sw_winograd_plan.h"

enum sw_way {
    SW_BY_RULE,  /* as swCaffe chooses: explicit or implicit */
    SW_BY_MODEL, /* the one of the three that is modelled the fastest */
    SW_EXPLICIT, /* by a column matrix, of some images at once; it can do all
                    whose rows fit into the LDM */
    SW_IMPLICIT, /* without, if sw_implicit_can */
    SW_WINOGRAD, /* if sw_winograd_can */
    SW_WAYS
};

/* A pass: y from x and w, dx from dy and w, or dw from x and dy. */
struct sw_conv {
    struct conv conv;
    enum conv_pass pass;
    enum sw_way way;
    const struct sw_plan *plan; /* of the implicit; NULL: sw_plan_best */
    const struct sw_winograd_plan *winograd; /* NULL: sw_winograd_best */
    int images;      /* of the explicit, at once; 0: sw_matrices_images */
    const float *in; /* x, dy or x */
    const float *by; /* w, w or dy */
    float *out;      /* y, dx or dw: all of it is written */
};

/* What the machine did for it: other orders of numbers, and the rest. */
struct sw_conv_counts {
    struct sw_counts transforms, work;
};

/* Which of the three ways it goes, and what it is called. */
enum sw_way sw_conv_way(const struct sw_conv *);
const char *sw_way_name(enum sw_way);

/* How many images at once, if it is explicit. */
int sw_conv_images(const struct sw_conv *);

/* NULL, or why it cannot. */
const char *sw_conv_cannot(const struct sw_conv *);

size_t sw_conv_scratch(const struct sw_conv *); /* floats */

/* NULL, or what the machine found wrong. Clears the machine's counts; counts
 * may be NULL. */
const char *sw_conv(struct sw_machine *, const struct sw_conv *, float *scratch,
                    struct sw_conv_counts *counts);

/* Of kernels/conv.h, by the way that the model has as the fastest, or by the
 * one that sw_method_use() has set. Activations are reordered from and to
 * blocks, and the bias is added, by the host and in no count. */
extern const struct conv_method conv_tile_sw;
void sw_method_use(enum sw_way); /* not thread-safe */

#endif
