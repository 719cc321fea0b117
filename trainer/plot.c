/* SPDX-License-Identifier: MIT */
#include "plot.h"

#include <cairo.h>
#include <math.h>
#include <stdio.h>

#include "programs/whole_file.h"

enum {
    WIDTH = 960,
    PANEL = 240, /* height of one, with its margins */
    LEFT = 84,
    RIGHT = 24,
    HEAD = 44,
    FOOT = 52,
    GAP = 18, /* above each panel's frame */
};

struct axis {
    double min, max, step;
    double from, to; /* in pixels */
};

static double place(const struct axis *a, double value)
{
    return a->from + (value - a->min) / (a->max - a->min) * (a->to - a->from);
}

/* 1, 2 or 5 times a power of ten, about n of them in the range. */
static double nice_step(double range, int n)
{
    const double rough = range / n, power = pow(10, floor(log10(rough))),
                 part = rough / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

static void widen(struct axis *a, int nticks)
{
    if (!(a->min <= a->max))
        a->min = 0, a->max = 1;
    if (a->max - a->min < 1e-12 * (fabs(a->max) + 1e-300) || a->max == a->min) {
        const double by = a->max ? fabs(a->max) * 0.1 : 1;
        a->min -= by;
        a->max += by;
    }
    a->step = nice_step(a->max - a->min, nticks);
}

/* Whole steps at both ends, so that the highest point has room. */
static void round_out(struct axis *a)
{
    a->min = floor(a->min / a->step + 1e-9) * a->step;
    a->max = ceil(a->max / a->step - 1e-9) * a->step;
}

static struct axis span(const struct plot_panel *panels, int n, bool of_x)
{
    struct axis a = {INFINITY, -INFINITY, 0, 0, 0};
    for (int p = 0; p < n; p++)
        for (int c = 0; c < panels[p].ncurves; c++) {
            const struct plot_curve *curve = &panels[p].curves[c];
            for (int i = 0; i < curve->count; i++) {
                const double v = of_x ? curve->x[i] : curve->y[i];
                if (!isfinite(curve->y[i]) || !isfinite(v))
                    continue;
                a.min = v < a.min ? v : a.min;
                a.max = v > a.max ? v : a.max;
            }
        }
    return a;
}

enum align { ALIGN_LEFT, ALIGN_CENTRE, ALIGN_RIGHT };

static void write_at(cairo_t *cr, double x, double y, enum align align,
                     const char *text)
{
    cairo_text_extents_t e;
    cairo_text_extents(cr, text, &e);
    if (align == ALIGN_CENTRE)
        x -= e.x_advance / 2;
    if (align == ALIGN_RIGHT)
        x -= e.x_advance;
    cairo_move_to(cr, x, y);
    cairo_show_text(cr, text);
}

static void line(cairo_t *cr, double x0, double y0, double x1, double y1)
{
    cairo_move_to(cr, x0, y0);
    cairo_line_to(cr, x1, y1);
    cairo_stroke(cr);
}

static void draw_y_axis(cairo_t *cr, const struct axis *x, const struct axis *y,
                        const char *label)
{
    char text[32];
    const long n = lround((y->max - y->min) / y->step);
    for (long i = 0; i <= n; i++) {
        const double v = y->min + (double)i * y->step, at = place(y, v);
        cairo_set_source_rgb(cr, 0.88, 0.88, 0.88);
        line(cr, x->from, at, x->to, at);
        cairo_set_source_rgb(cr, 0.15, 0.15, 0.15);
        snprintf(text, sizeof(text), "%.4g",
                 fabs(v) < y->step * 1e-6 ? 0.0 : v);
        write_at(cr, x->from - 8, at + 4, ALIGN_RIGHT, text);
    }
    cairo_save(cr);
    cairo_translate(cr, 22, (y->from + y->to) / 2);
    cairo_rotate(cr, -acos(0));
    write_at(cr, 0, 0, ALIGN_CENTRE, label);
    cairo_restore(cr);
}

static void draw_x_axis(cairo_t *cr, const struct axis *x, const struct axis *y,
                        const char *label)
{
    char text[32];
    const double first = ceil(x->min / x->step - 1e-9) * x->step;
    for (double v = first; v <= x->max + 1e-9 * x->step; v += x->step) {
        const double at = place(x, v);
        cairo_set_source_rgb(cr, 0.88, 0.88, 0.88);
        line(cr, at, y->from, at, y->to);
        cairo_set_source_rgb(cr, 0.15, 0.15, 0.15);
        snprintf(text, sizeof(text), "%.6g", v);
        if (label)
            write_at(cr, at, y->from + 18, ALIGN_CENTRE, text);
    }
    if (label)
        write_at(cr, (x->from + x->to) / 2, y->from + 40, ALIGN_CENTRE, label);
}

static void draw_curve(cairo_t *cr, const struct axis *x, const struct axis *y,
                       const struct plot_curve *c)
{
    cairo_set_source_rgb(cr, c->red, c->green, c->blue);
    for (int i = 0; i < c->count; i++)
        if (isfinite(c->y[i]))
            cairo_line_to(cr, place(x, c->x[i]), place(y, c->y[i]));
    cairo_stroke(cr);
    for (int i = 0; i < c->count; i++) {
        if (!isfinite(c->y[i]) || (!c->points && c->count > 1))
            continue;
        cairo_arc(cr, place(x, c->x[i]), place(y, c->y[i]), 3.5, 0,
                  4 * acos(0));
        cairo_fill(cr);
    }
}

static void draw_legend(cairo_t *cr, const struct axis *x, const struct axis *y,
                        const struct plot_panel *panel)
{
    double width = 0;
    for (int i = 0; i < panel->ncurves; i++) {
        cairo_text_extents_t e;
        cairo_text_extents(cr, panel->curves[i].label, &e);
        width = e.x_advance > width ? e.x_advance : width;
    }
    const int height = 18 * panel->ncurves + 4;
    const double left = x->to - width - 50,
                 top = panel->legend_low ? y->from - height - 8 : y->to + 8;
    cairo_set_source_rgba(cr, 1, 1, 1, 0.85);
    cairo_rectangle(cr, left - 6, top, width + 48, height);
    cairo_fill(cr);
    for (int i = 0; i < panel->ncurves; i++) {
        const struct plot_curve *c = &panel->curves[i];
        const double at = top + 12 + 18 * i;
        cairo_set_source_rgb(cr, c->red, c->green, c->blue);
        line(cr, left, at, left + 24, at);
        if (c->points) {
            cairo_arc(cr, left + 12, at, 3.5, 0, 4 * acos(0));
            cairo_fill(cr);
        }
        cairo_set_source_rgb(cr, 0.15, 0.15, 0.15);
        write_at(cr, left + 32, at + 4, ALIGN_LEFT, c->label);
    }
}

static void draw_panel(cairo_t *cr, const struct plot_panel *panel,
                       const struct axis *x, double top, const char *x_label)
{
    struct axis y = span(panel, 1, false);
    widen(&y, 5);
    round_out(&y);
    y.from = top + PANEL;
    y.to = top + GAP;
    cairo_set_line_width(cr, 1);
    draw_y_axis(cr, x, &y, panel->label);
    draw_x_axis(cr, x, &y, x_label);
    cairo_rectangle(cr, x->from, y.to, x->to - x->from, y.from - y.to);
    cairo_stroke(cr);
    cairo_set_line_width(cr, 1.6);
    for (int i = 0; i < panel->ncurves; i++)
        draw_curve(cr, x, &y, &panel->curves[i]);
    draw_legend(cr, x, &y, panel);
}

static cairo_status_t store(void *stream, const unsigned char *bytes,
                            unsigned count)
{
    return fwrite(bytes, 1, count, stream) == count ? CAIRO_STATUS_SUCCESS
                                                    : CAIRO_STATUS_WRITE_ERROR;
}

static int save(cairo_surface_t *surface, const char *path, char *error,
                size_t error_bytes)
{
    struct whole_file f;
    if (!whole_file_begin(&f, path, error, error_bytes))
        return -1;
    const cairo_status_t status =
        cairo_surface_write_to_png_stream(surface, store, f.stream);
    if (!status || status == CAIRO_STATUS_WRITE_ERROR)
        return whole_file_end(&f, true, error, error_bytes) ? 0 : -1;
    snprintf(error, error_bytes, "%s: cannot draw: %s", path,
             cairo_status_to_string(status));
    whole_file_drop(&f);
    return -1;
}

int plot_write(const char *path, const char *title, const char *x_label,
               const struct plot_panel *panels, int npanels, char *error,
               size_t error_bytes)
{
    cairo_surface_t *surface = cairo_image_surface_create(
        CAIRO_FORMAT_RGB24, WIDTH, HEAD + npanels * PANEL + FOOT);
    cairo_t *cr = cairo_create(surface);
    struct axis x = span(panels, npanels, true);
    widen(&x, 8);
    x.from = LEFT;
    x.to = WIDTH - RIGHT;
    cairo_set_source_rgb(cr, 1, 1, 1);
    cairo_paint(cr);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_source_rgb(cr, 0.1, 0.1, 0.1);
    cairo_set_font_size(cr, 17);
    write_at(cr, LEFT, 32, ALIGN_LEFT, title);
    cairo_set_font_size(cr, 13);
    for (int i = 0; i < npanels; i++)
        draw_panel(cr, &panels[i], &x, HEAD + i * PANEL,
                   i == npanels - 1 ? x_label : NULL);
    cairo_destroy(cr);
    const int failed = save(surface, path, error, error_bytes);
    cairo_surface_destroy(surface);
    return failed;
}
