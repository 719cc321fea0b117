/* SPDX-License-Identifier: MIT */
/* Winograd's algorithm on the mesh. A CPE has the same part of all places of a
 * tile, so that it transforms tiles by itself, in its LDM, where they stay;
 * what comes from memory anew are the transformed weights, place by place, each
 * a product on the mesh. Layouts and parts are those of sw_implicit.h. */
#ifndef TRAINER_KERNELS_SW_SW_WINOGRAD_H
#define TRAINER_KERNELS_SW_SW_WINOGRAD_H

#include "kernels/sw/sw_port.h"
#include "kernels/sw/sw_winograd_plan.h"

/* (place of the tile, ...) from (tap, ...): G w Gt of `count` windows, whose
 * taps are so far apart. count is a multiple of 4. */
struct sw_window_job {
    enum sw_form_name form;
    size_t count;
    const float *from;
    float *to;
};
const char *sw_winograd_windows(struct sw_machine *,
                                const struct sw_window_job *);

/* A pass forward, or to the gradient of the input: the geometry says how. in is
 * (row, column, channel, image), weights (place, output, input), transformed;
 * out (row, column, channel, image). */
struct sw_winograd {
    struct sw_geometry geometry;
    struct sw_winograd_plan plan;
    const float *in, *weights;
    float *out;
};
const char *sw_winograd(struct sw_machine *, const struct sw_winograd *);

/* The gradient of the window. The geometry is that of the pass forward; in is
 * (row, column, image, channel), by dy as (row, column, channel, image), out
 * (tap, output, input). */
struct sw_winograd_gradient {
    struct sw_geometry geometry;
    struct sw_winograd_plan plan;
    const float *in, *by;
    float *out;
};
const char *sw_winograd_gradient(struct sw_machine *,
                                 const struct sw_winograd_gradient *);

#endif
