/* SPDX-License-Identifier: MIT */
/* The column matrix of an image (see kernels/im2col.h) by DMA: made, and added
 * up to an image again. */
#ifndef TRAINER_KERNELS_SW_SW_COLUMN_H
#define TRAINER_KERNELS_SW_SW_COLUMN_H

#include <stddef.h>

#include "kernels/im2col.h"
#include "kernels/sw/sw_port.h"

struct sw_column {
    struct im2col shape;
    const float *from;
    float *to;
    size_t column_row; /* floats from row to row of the column matrix */
};

/* NULL, or why a row of the image does not go through the LDM. */
const char *sw_column_cannot(const struct im2col *);

/* Rows of the padded image are dealt to the CPEs; each writes what windows see
 * of its rows. What lies beyond a row's end is not touched. */
const char *sw_im2col(struct sw_machine *, const struct sw_column *);

/* Rows of the image are dealt to the CPEs; each adds up what windows have for
 * its rows, in double. */
const char *sw_col2im(struct sw_machine *, const struct sw_column *);

#endif
