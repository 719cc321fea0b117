/* SPDX-License-Identifier: MIT */
/* How much of a convolution is done at once: images, bands of rows, and chunks
 * of input blocks. A band's copy and a chunk's weights fit the second cache
 * together, but where an output that is bf16 wants all inputs at once. */
#ifndef TRAINER_KERNELS_CONV_BANDS_H
#define TRAINER_KERNELS_CONV_BANDS_H

#include "kernels/conv_view.h"

/* Floats of the copy of an image's band, at most; and with blocks of 32
 * channels of all images', as processors that have wide tiles have second
 * caches of 2 MiB. A single image's may be more where it wants all inputs at
 * once. */
enum { BAND = 65536, WIDE_BAND = 1 << 18 };

struct conv_bands {
    int rows, blocks, images; /* of positions and inputs, at once */
    /* Floats of the copy from a block and an image to the next one. Where
     * images are joined, for which wide tiles have one tap and few positions,
     * blocks have all images, else images all blocks. */
    size_t block, image;
    bool joined;
};

/* Of chunks that have so many floats of weights for a block of outputs, at
 * most. */
struct conv_bands conv_bands_of(const struct conv_view *, int weights,
                                int images);

static inline size_t conv_band_floats(const struct conv_bands *b)
{
    const size_t images = b->image * (size_t)b->images;
    const size_t blocks = b->block * (size_t)b->blocks;
    return images > blocks ? images : blocks;
}

/* Images whose weights are read once: `few` positions at least. */
int conv_images_at_once(const struct conv_view *, int n, int few);

/* At most so many of them at once, in parts that are as equal as can be. */
int conv_even_parts(int count, int most);

#endif
