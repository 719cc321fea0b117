/* SPDX-License-Identifier: MIT */
#include "kernels/conv_bands.h"

#include "kernels/conv_pack.h"

enum { JOINED = 4 * WIDE_POSITIONS }; /* at most, of images that are joined */

int conv_even_parts(int count, int most)
{
    return conv_up(count, conv_up(count, most));
}

int conv_images_at_once(const struct conv_view *v, int n, int few)
{
    return conv_least(conv_up(few, v->rows * v->columns), n > 0 ? n : 1);
}

struct conv_bands conv_bands_of(const struct conv_view *v, int weights,
                                int images)
{
    const int per_block = v->place * CONV_BLOCK * (v->ntaps ? v->ntaps : 1);
    const bool wide = v->deep > CONV_BLOCK;
    const size_t most = wide ? WIDE_BAND : BAND;
    struct conv_bands b = {.rows = v->rows, .images = images};
    b.blocks = weights / per_block;
    b.blocks = conv_even_parts(v->blocks, b.blocks < 1 ? 1 : b.blocks);
    if (!v->copies && v->ntaps == 1)
        return b;
    while (b.rows > 1
           && (size_t)view_rows(v, b.rows) * v->row * (size_t)b.blocks > most)
        b.rows--;
    b.rows = conv_even_parts(v->rows, b.rows);
    if (!v->copies)
        return b;
    b.block = (size_t)view_rows(v, b.rows) * v->row;
    b.image = b.block * (size_t)b.blocks;
    if (wide && b.image)
        b.images = conv_least(images, conv_most(1, (int)(most / b.image)));
    b.joined = wide && v->ntaps == 1 && b.rows == v->rows
               && v->rows * v->columns <= JOINED;
    if (b.joined) {
        b.image = b.block;
        b.block *= (size_t)b.images;
    }
    return b;
}
