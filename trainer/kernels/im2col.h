/* SPDX-License-Identifier: MIT */
/* Convolution as a product of matrices: row (c, i, j) of the column matrix is
 * what element (i, j) of the window sees of channel c at every output position.
 */
#ifndef TRAINER_KERNELS_IM2COL_H
#define TRAINER_KERNELS_IM2COL_H

struct im2col {
    int c, h, w; /* of the image */
    int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    int dilation_h, dilation_w;
    int out_h, out_w;
};

/* column: c*kernel_h*kernel_w rows of out_h*out_w floats; all are written.
 * Places outside the image count as zero. */
void im2col(const struct im2col *, const float *image, float *column);

/* The transpose: image becomes the sum, for each of its elements, of all the
 * places of column that saw it. The order of adding is fixed. */
void col2im(const struct im2col *, const float *column, float *image);

#endif
