/* SPDX-License-Identifier: MIT */
/* --plot: a bar for each layer and pass, and a line at the peak. */
#include <cairo.h>
#include <math.h>
#include <stdio.h>

#include "bench/peak.h"
#include "bench/results.h"
#include "programs/whole_file.h"

enum { LEFT = 250, RIGHT = 90, TOP = 60, ROW = 16, WIDTH = 900, BOTTOM = 20 };

static const double colours[CONV_PASSES][3] = {
    {0.12, 0.47, 0.71},
    {0.85, 0.37, 0.01},
    {0.20, 0.63, 0.17}
};

static void say(cairo_t *to, double x, double y, double size, const char *text)
{
    cairo_set_font_size(to, size);
    cairo_set_source_rgb(to, 0.1, 0.1, 0.1);
    cairo_move_to(to, x, y);
    cairo_show_text(to, text);
}

static void draw_row(cairo_t *to, const struct bench_result *r, double y,
                     double pixels)
{
    char text[256];
    const double rate = bench_flops(r) * 1e-9, *c = colours[r->pass];
    cairo_set_source_rgb(to, c[0], c[1], c[2]);
    cairo_rectangle(to, LEFT, y + 2, rate * pixels, ROW - 4);
    cairo_fill(to);
    snprintf(text, sizeof(text), "%s  %s  %s", r->of->layer, pass_name(r->pass),
             r->kernel);
    say(to, 10, y + ROW - 4, 11, text);
    snprintf(text, sizeof(text), "%.1f", rate);
    say(to, LEFT + 4 + rate * pixels, y + ROW - 4, 11,
        r->cannot ? "cannot" : text);
}

static void draw(cairo_t *to, const struct bench *b)
{
    char text[512];
    const double peak = peak_of_dtype(b->options, b->crew) * 1e-9;
    double most = peak;
    for (int i = 0; i < b->nresults; i++)
        most = fmax(most, bench_flops(&b->results[i]) * 1e-9);
    const double pixels = (WIDTH - LEFT - RIGHT) / most;
    cairo_set_source_rgb(to, 1, 1, 1);
    cairo_paint(to);
    cairo_select_font_face(to, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    snprintf(text, sizeof(text), "%s, batch %ld, %s, one core of: %s",
             b->options->net, b->options->batch, b->options->dtype, b->machine);
    say(to, 10, 20, 14, text);
    snprintf(text, sizeof(text),
             "GFLOP/s; the line is the peak of %s with %s: %.1f",
             b->options->dtype, b->options->isa, peak);
    say(to, 10, 40, 12, text);
    for (int i = 0; i < b->nresults; i++)
        draw_row(to, &b->results[i], TOP + i * ROW, pixels);
    cairo_set_source_rgb(to, 0.1, 0.1, 0.1);
    cairo_set_line_width(to, 1);
    cairo_move_to(to, LEFT + peak * pixels, TOP - 8);
    cairo_rel_line_to(to, 0, 16 + b->nresults * ROW);
    cairo_stroke(to);
}

static cairo_status_t to_file(void *file, const unsigned char *bytes,
                              unsigned int count)
{
    return fwrite(bytes, 1, count, file) == count ? CAIRO_STATUS_SUCCESS
                                                  : CAIRO_STATUS_WRITE_ERROR;
}

int plot_bars(const struct bench *b, const char *path, char *error,
              size_t error_bytes)
{
    struct whole_file file;
    if (!whole_file_begin(&file, path, error, error_bytes))
        return -1;
    cairo_surface_t *image = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, WIDTH, TOP + b->nresults * ROW + BOTTOM);
    cairo_t *to = cairo_create(image);
    draw(to, b);
    cairo_status_t status = cairo_status(to);
    cairo_destroy(to);
    if (!status)
        status = cairo_surface_write_to_png_stream(image, to_file, file.stream);
    cairo_surface_destroy(image);
    if (!status)
        return whole_file_end(&file, true, error, error_bytes) ? 0 : -1;
    snprintf(error, error_bytes, "%s: cannot draw: %s", path,
             cairo_status_to_string(status));
    whole_file_drop(&file);
    return -1;
}
