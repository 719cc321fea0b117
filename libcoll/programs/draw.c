/* SPDX-License-Identifier: MIT */
#include "programs/draw.h"

#include <cairo-svg.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "programs/whole_file.h"

static cairo_status_t write_piece(void *file, const unsigned char *data,
                                  unsigned int length)
{
    return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS
                                                   : CAIRO_STATUS_WRITE_ERROR;
}

/* Paints on the surface, which is freed, and ends its file. */
static bool paint_on(const struct drawing *d, cairo_surface_t *surface,
                     enum draw_format format, FILE *file)
{
    cairo_t *c = cairo_create(surface);
    draw_paint(d, c);
    cairo_status_t status = cairo_status(c);
    cairo_destroy(c);
    if (!status && format == DRAW_PNG)
        status = cairo_surface_write_to_png_stream(surface, write_piece, file);
    cairo_surface_finish(surface);
    if (!status)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (status && status != CAIRO_STATUS_WRITE_ERROR)
        errno = ENOMEM;
    return !status && !fflush(file) && !ferror(file) && !fsync(fileno(file));
}

static bool draw_to(const struct draw_request *request, enum draw_format format,
                    FILE *file)
{
    cairo_surface_t *scratch =
        cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    struct drawing d = {.measure = cairo_create(scratch)};
    draw_layout(&d, request);
    const double w = ceil(d.width), h = ceil(d.height);
    cairo_surface_t *surface =
        format == DRAW_SVG
            ? cairo_svg_surface_create_for_stream(write_piece, file, w, h)
            : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)w, (int)h);
    const bool ok = paint_on(&d, surface, format, file);
    cairo_destroy(d.measure);
    cairo_surface_destroy(scratch);
    draw_free(&d);
    return ok;
}

bool draw_file(const struct draw_request *request, enum draw_format format,
               const char *path, char *error, size_t error_bytes)
{
    struct whole_file file;
    return whole_file_begin(&file, path, error, error_bytes)
           && whole_file_end(&file, draw_to(request, format, file.stream),
                             error, error_bytes);
}
