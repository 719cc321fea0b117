/* SPDX-License-Identifier: MIT */
/* The column matrix (see kernels/im2col.h) of one image, or of several side by
 * side in its rows, by DMA: made, and added up to images again. */
#ifndef TRAINER_KERNELS_SW_SW_COLUMN_H
#define TRAINER_KERNELS_SW_SW_COLUMN_H

#include <stddef.h>

#include "kernels/im2col.h"
#include "kernels/sw/sw_counts.h"
#include "kernels/sw/sw_port.h"

struct sw_column {
    struct im2col shape;
    int images;
    size_t image; /* floats from image to image */
    const float *from;
    float *to;
    size_t column_row; /* floats from row to row of the column matrix */
};

/* NULL, or why a row of so many images does not go through the LDM. */
const char *sw_column_cannot(const struct im2col *, int images);

/* Rows of the padded image, each of all images at once, are dealt to the CPEs,
 * which write what windows see of them. What lies beyond the end of the
 * matrix's rows is not touched. */
const char *sw_im2col(struct sw_machine *, const struct sw_column *);

/* Rows of the image are dealt to the CPEs; each adds up what windows have for
 * its rows, in double. */
const char *sw_col2im(struct sw_machine *, const struct sw_column *);

/* What they move for each image. */
struct sw_bytes sw_im2col_bytes(const struct im2col *);
struct sw_bytes sw_col2im_bytes(const struct im2col *);

#endif
