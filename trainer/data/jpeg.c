/* SPDX-License-Identifier: MIT */
/* JPEG pictures, by libjpeg-turbo. Its error handler exits the process and
 * its warnings leave grey where data lack; here both are errors. */
#include <stdio.h>
#include <stdlib.h>
/* these want the ones above */
#include <jpeglib.h>
#include <jerror.h>

#include "data/picture.h"

/* A few bytes a scan may ask for a pass over a large picture; real ones have
 * some ten. */
enum { MOST_SCANS = 200 };

struct jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    uint8_t *line; /* of a picture in four colours */
};

static _Noreturn void on_error(j_common_ptr info)
{
    char why[JMSG_LENGTH_MAX];
    struct decoding *d = info->client_data;
    d->cut = info->err->msg_code == JWRN_JPEG_EOF
             || info->err->msg_code == JERR_INPUT_EMPTY;
    info->err->format_message(info, why);
    picture_leave(d, why);
}

static void on_message(j_common_ptr info, int level)
{
    if (level < 0)
        on_error(info);
}

static void on_progress(j_common_ptr info)
{
    if (info->is_decompressor
        && ((j_decompress_ptr)info)->input_scan_number > MOST_SCANS)
        picture_leave(info->client_data, "it has more than 200 scans");
}

/* The smallest whole picture that is not below d->least. The library also
 * knows 3/8 and the like, but no fast code for them. */
static void choose_scale(const struct decoding *d,
                         struct jpeg_decompress_struct *info)
{
    info->scale_denom = 8;
    for (info->scale_num = 1; info->scale_num < 8; info->scale_num *= 2) {
        jpeg_calc_output_dimensions(info);
        if ((int)info->output_width >= d->least.w
            && (int)info->output_height >= d->least.h)
            break;
    }
}

/* Cyan, magenta, yellow and black, which Adobe's programs store as what is
 * left of the light. */
static void to_rgb(const uint8_t *from, bool inverted, int n, uint8_t *to)
{
    for (int i = 0; i < n; i++, from += 4, to += 3)
        for (int c = 0; c < 3; c++) {
            const int ink = inverted ? from[c] : 255 - from[c],
                      black = inverted ? from[3] : 255 - from[3];
            to[c] = (uint8_t)((ink * black + 127) / 255);
        }
}

static void read_pixels(struct decoding *d, struct jpeg *own)
{
    struct jpeg_decompress_struct *info = &own->info;
    const bool four = info->jpeg_color_space == JCS_CMYK
                      || info->jpeg_color_space == JCS_YCCK;
    info->out_color_space = four ? JCS_CMYK : JCS_RGB;
    choose_scale(d, info);
    jpeg_start_decompress(info);
    picture_take(
        d, (struct size){(int)info->output_width, (int)info->output_height});
    const size_t width = info->output_width;
    if (four && !(own->line = malloc(4 * width)))
        picture_leave(d, "no memory for its pixels");
    while (info->output_scanline < info->output_height) {
        uint8_t *to = d->picture.rgb + 3 * width * info->output_scanline;
        JSAMPROW row = four ? own->line : to;
        jpeg_read_scanlines(info, &row, 1);
        if (four)
            to_rgb(row, info->saw_Adobe_marker, (int)width, to);
    }
    jpeg_finish_decompress(info);
}

void jpeg_read(struct decoding *d)
{
    struct jpeg *own = calloc(1, sizeof(*own));
    if (!own)
        picture_leave(d, "no memory");
    d->library = own;
    own->info.client_data = d;
    own->info.err = jpeg_std_error(&own->errors);
    own->errors.error_exit = on_error;
    own->errors.emit_message = on_message;
    jpeg_create_decompress(&own->info);
    own->progress.progress_monitor = on_progress;
    own->info.progress = &own->progress;
    jpeg_mem_src(&own->info, d->bytes, d->count);
    jpeg_read_header(&own->info, TRUE);
    d->size =
        (struct size){(int)own->info.image_width, (int)own->info.image_height};
    picture_check(d);
    if (!d->head_only)
        read_pixels(d, own);
}

void jpeg_end(struct decoding *d)
{
    struct jpeg *own = d->library;
    if (!own)
        return;
    jpeg_destroy_decompress(&own->info);
    free(own->line);
    free(own);
}
