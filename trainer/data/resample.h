/* SPDX-License-Identifier: MIT */
/* A part of a picture, scaled to what a net takes.
 *
 * As if the picture were first scaled to the size `full`, with its corners on
 * corners, and then cut: each pixel is a mean of those of the picture around
 * it, which weigh less with their distance (a triangle, as wide as two of the
 * pixels of the coarser of the two; "bilinear" in Pillow). Only what is cut out
 * is computed.
 */
#ifndef TRAINER_DATA_RESAMPLE_H
#define TRAINER_DATA_RESAMPLE_H

#include "data/picture.h"
#include "tensor.h"

/* So large is a picture scaled from which a part of w x h is cut: 256 where a
 * net takes 224 (Krizhevsky et al., 2012), along the side that is shorter for
 * it. What has that size already is not scaled. */
struct size resample_full(struct size picture, struct size part);

struct cut {
    struct size full;
    int x, y; /* of the part's upper left corner in it */
    bool mirrored;
};

/* A value is scale[c] * byte + shift[c]. */
struct levels {
    float scale[3], shift[3];
};

/* to gets (C,H,W) floats; C is 3, or 1 for the brightness. -1: no memory. */
int resample(const struct picture *, const struct cut *, struct shape,
             const struct levels *, float *to);

#endif
