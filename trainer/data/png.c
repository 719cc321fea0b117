/* SPDX-License-Identifier: MIT */
/* PNG pictures, by libpng. What is transparent shows the colour below. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "data/picture.h"

struct png {
    png_structp state;
    png_infop info;
};

static _Noreturn void on_error(png_structp state, png_const_charp why)
{
    picture_leave(png_get_error_ptr(state), why);
}

/* Such as of a colour profile that everybody writes and nobody likes. */
static void on_warning(png_structp state, png_const_charp why)
{
    (void)state;
    (void)why;
}

static void take(png_structp state, png_bytep to, size_t bytes)
{
    struct decoding *d = png_get_io_ptr(state);
    if (bytes > d->count - d->at) {
        d->cut = true;
        picture_leave(d, "found the end of the file within it");
    }
    memcpy(to, d->bytes + d->at, bytes);
    d->at += bytes;
}

static void read_pixels(struct decoding *d, const struct png *own)
{
    const png_structp state = own->state;
    png_set_expand(state);
    png_set_scale_16(state);
    png_set_strip_alpha(state);
    png_set_gray_to_rgb(state);
    const int passes = png_set_interlace_handling(state);
    png_read_update_info(state, own->info);
    const size_t line = 3 * (size_t)d->size.w;
    if (png_get_rowbytes(state, own->info) != line)
        picture_leave(d, "its pixels are of no kind that is known");
    picture_take(d, d->size);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < d->size.h; y++)
            png_read_row(state, d->picture.rgb + (size_t)y * line, NULL);
    png_read_end(state, NULL);
}

void png_read(struct decoding *d)
{
    struct png *own = calloc(1, sizeof(*own));
    if (!own)
        picture_leave(d, "no memory");
    d->library = own;
    own->state =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_error, on_warning);
    if (own->state)
        own->info = png_create_info_struct(own->state);
    if (!own->info)
        picture_leave(d, "no memory");
    png_set_user_limits(own->state, PICTURE_MOST_SIDE, PICTURE_MOST_SIDE);
    png_set_read_fn(own->state, d, take);
    png_read_info(own->state, own->info);
    d->size = (struct size){(int)png_get_image_width(own->state, own->info),
                            (int)png_get_image_height(own->state, own->info)};
    picture_check(d);
    if (!d->head_only)
        read_pixels(d, own);
}

void png_end(struct decoding *d)
{
    struct png *own = d->library;
    if (!own)
        return;
    if (own->state)
        png_destroy_read_struct(&own->state, &own->info, NULL);
    free(own);
}
