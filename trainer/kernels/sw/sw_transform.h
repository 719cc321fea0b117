/* SPDX-License-Identifier: MIT */
/* Other orders of the same numbers, by DMA and in the LDM: what swCaffe calls
 * its tensor transformation layer. Numbers stay float throughout. */
#ifndef TRAINER_KERNELS_SW_SW_TRANSFORM_H
#define TRAINER_KERNELS_SW_SW_TRANSFORM_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/sw/sw_port.h"

/* For each batch: to[batch][column][row] = from[batch][row][column]. The
 * distances count floats. Reversed: the columns come last one first. */
struct sw_transpose {
    const float *from;
    float *to;
    int batches, rows, columns;
    size_t from_batch, from_row, to_batch, to_row;
    bool reversed;
};
const char *sw_transpose(struct sw_machine *, const struct sw_transpose *);

/* For each batch: to[row][column] = from[row][column], between batches and
 * rows of other distances. */
struct sw_copy {
    const float *from;
    float *to;
    int batches, rows, columns;
    size_t from_batch, from_row, to_batch, to_row;
};
const char *sw_copy(struct sw_machine *, const struct sw_copy *);

/* Between the framework's (image, channel, place) and the tile's
 * (place, channel, image), or the tile's (place, image, channel), which
 * takes the channels for images. */
struct sw_transpose sw_images_to_tile(const float *, float *, int n, int c,
                                      int places);
struct sw_transpose sw_images_from_tile(const float *, float *, int n, int c,
                                        int places);
struct sw_transpose sw_images_to_tile_backward(const float *, float *, int n,
                                               int c, int places);

/* Between (output, input, tap) and (tap, output, input), or (tap, input,
 * output) with the taps turned round. */
struct sw_transpose sw_weights_to_tile(const float *, float *, int no, int ni,
                                       int taps);
struct sw_transpose sw_weights_from_tile(const float *, float *, int no, int ni,
                                         int taps);
struct sw_transpose sw_weights_to_tile_backward(const float *, float *, int no,
                                                int ni, int taps);

#endif
