/* SPDX-License-Identifier: MIT */
#include "programs/chart.h"

#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANEL = 720, /* of the axes alone */
    HEIGHT = 660,
    LEFT = 84,
    TOP = 84,
    LOW = 62,
    LEGEND = 290,
    PAIR_PANEL = 440, /* where there are several panels */
};

struct axes {
    cairo_t *c;
    const struct chart *chart;
    double left, right, top, low; /* pixels */
    double x0, x1, y0, y1;        /* of the scales */
};

/* Okabe and Ito's colours, which the colour-blind can tell apart too, less the
 * yellow, and two darker ones. */
static const double colours[][3] = {
    {0.00, 0.45, 0.70},
    {0.84, 0.37, 0.00},
    {0.00, 0.62, 0.45},
    {0.80, 0.47, 0.65},
    {0.90, 0.62, 0.00},
    {0.34, 0.71, 0.91},
    {0.36, 0.20, 0.55},
    {0.45, 0.33, 0.20},
};
enum { NCOLOURS = sizeof(colours) / sizeof(colours[0]) };

static void set_grey(cairo_t *c, double level)
{
    cairo_set_source_rgb(c, level, level, level);
}

static void set_font(cairo_t *c, double size, bool bold)
{
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD
                                : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, size);
}

static void text(cairo_t *c, double x, double y, double align,
                 const char *words)
{
    cairo_text_extents_t size;
    cairo_text_extents(c, words, &size);
    cairo_move_to(c, x - align * size.x_advance, y);
    cairo_show_text(c, words);
}

static void line(cairo_t *c, double x0, double y0, double x1, double y1)
{
    cairo_move_to(c, x0, y0);
    cairo_line_to(c, x1, y1);
    cairo_stroke(c);
}

static double on_scale(enum chart_scale scale, double value)
{
    return scale == CHART_PERCENT   ? value
           : scale == CHART_SECONDS ? log10(value)
                                    : log2(value);
}

static double x_of(const struct axes *a, double x)
{
    const double at = on_scale(a->chart->x_scale, x);
    return a->left + (at - a->x0) / (a->x1 - a->x0) * (a->right - a->left);
}

static double y_of(const struct axes *a, double y)
{
    const double at = on_scale(a->chart->y_scale, y);
    return a->low - (at - a->y0) / (a->y1 - a->y0) * (a->low - a->top);
}

/* From the least to the most, with some room on logarithmic scales. */
static void find_range(struct axes *a)
{
    const struct chart *chart = a->chart;
    a->x0 = a->y0 = INFINITY;
    a->x1 = a->y1 = -INFINITY;
    for (int s = 0; s < chart->nseries; s++)
        for (int i = 0; i < chart->series[s].n; i++) {
            const struct chart_point *p = &chart->series[s].points[i];
            a->x0 = fmin(a->x0, on_scale(chart->x_scale, p->x));
            a->x1 = fmax(a->x1, on_scale(chart->x_scale, p->x));
            a->y0 = fmin(a->y0, on_scale(chart->y_scale, p->y));
            a->y1 = fmax(a->y1, on_scale(chart->y_scale, p->y));
        }
    if (!(a->x0 <= a->x1))
        a->x0 = a->x1 = a->y0 = a->y1 = 0;
    if (a->x1 - a->x0 < 1) {
        a->x0 -= 0.5;
        a->x1 += 0.5;
    }
    if (chart->y_scale == CHART_PERCENT) {
        a->y0 = 0;
        a->y1 = 100;
        return;
    }
    if (chart->y_most > 0)
        a->y1 = fmin(a->y1, on_scale(chart->y_scale, chart->y_most));
    const double room = fmax(0.04 * (a->y1 - a->y0), 0.1);
    a->y0 -= room;
    a->y1 += room;
}

static void bytes_words(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, size, "%g %s", bytes, units[unit]);
}

static void seconds_words(char *out, size_t size, double seconds)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    double x = seconds * 1e9;
    while (x >= 999.9 && unit < 3) {
        x /= 1000;
        unit++;
    }
    snprintf(out, size, "%g %s", x, units[unit]);
}

static void x_line(const struct axes *a, double x, const char *words)
{
    set_grey(a->c, 0.88);
    line(a->c, x_of(a, x), a->top, x_of(a, x), a->low);
    set_grey(a->c, 0.15);
    text(a->c, x_of(a, x), a->low + 19, 0.5, words);
}

static void y_line(const struct axes *a, double y, const char *words)
{
    set_grey(a->c, words ? 0.84 : 0.94);
    line(a->c, a->left, y_of(a, y), a->right, y_of(a, y));
    set_grey(a->c, 0.15);
    if (words)
        text(a->c, a->left - 8, y_of(a, y) + 4, 1, words);
}

static void paint_x(const struct axes *a)
{
    char words[64];
    const int from = (int)ceil(a->x0 - 1e-9), to = (int)floor(a->x1 + 1e-9);
    const int most = (a->right - a->left) > 600 ? 11 : 7;
    const int step = (to - from) / most + 1;
    for (int e = from; e <= to; e += step) {
        if (a->chart->x_scale == CHART_BYTES)
            bytes_words(words, sizeof(words), exp2(e));
        else
            snprintf(words, sizeof(words), "%g", exp2(e));
        x_line(a, exp2(e), words);
    }
}

static void paint_decades(const struct axes *a)
{
    char words[64];
    const int from = (int)floor(a->y0), to = (int)ceil(a->y1);
    const bool few = a->y1 - a->y0 < 2.5;
    for (int e = from; e <= to; e++)
        for (int k = 1; k < 10; k++) {
            const double y = k * pow(10, e);
            const bool named = k == 1 || (few && (k == 2 || k == 5));
            if (log10(y) < a->y0 || log10(y) > a->y1)
                continue;
            seconds_words(words, sizeof(words), y);
            y_line(a, y, named ? words : NULL);
        }
}

static void paint_y(const struct axes *a)
{
    char words[64];
    if (a->chart->y_scale == CHART_SECONDS) {
        paint_decades(a);
        return;
    }
    for (int p = 0; a->chart->y_scale == CHART_PERCENT && p <= 100; p += 10) {
        snprintf(words, sizeof(words), "%d %%", p);
        y_line(a, p, p % 20 ? NULL : words);
    }
    for (int e = (int)ceil(a->y0);
         a->chart->y_scale == CHART_NUMBERS && e <= (int)floor(a->y1); e++) {
        snprintf(words, sizeof(words), "%g", exp2(e));
        y_line(a, exp2(e), words);
    }
}

static void set_colour(cairo_t *c, const struct chart_series *s, int i)
{
    const double *rgb = colours[(s->of ? s->of - 1 : i) % NCOLOURS];
    if (s->reference && !s->of)
        set_grey(c, 0.55);
    else
        cairo_set_source_rgb(c, rgb[0], rgb[1], rgb[2]);
}

/* Curves that share a colour differ in their dots. */
static void dot(cairo_t *c, int i, double x, double y)
{
    const double r = 3.4;
    cairo_new_path(c);
    switch (i / NCOLOURS % 3) {
    case 0:
        cairo_arc(c, x, y, r, 0, 4 * acos(0));
        break;
    case 1:
        cairo_rectangle(c, x - r, y - r, 2 * r, 2 * r);
        break;
    default:
        cairo_move_to(c, x, y - 1.5 * r);
        cairo_line_to(c, x + 1.3 * r, y + r);
        cairo_line_to(c, x - 1.3 * r, y + r);
        cairo_close_path(c);
    }
    cairo_fill(c);
}

static void set_dashes(cairo_t *c, const struct chart_series *s, int i)
{
    static const double reference[] = {7, 5}, second[] = {9, 3},
                        third[] = {3, 3};
    const int turn = i / NCOLOURS % 3;
    if (s->reference)
        cairo_set_dash(c, reference, 2, 0);
    else
        cairo_set_dash(c, turn == 1 ? second : third, turn ? 2 : 0, 0);
}

static void paint_curve(const struct axes *a, int i)
{
    const struct chart_series *s = &a->chart->series[i];
    cairo_t *c = a->c;
    set_colour(c, s, i);
    set_dashes(c, s, i);
    cairo_set_line_width(c, s->reference ? 1.5 : 2);
    cairo_new_path(c);
    for (int k = 0; k < s->n; k++)
        cairo_line_to(c, x_of(a, s->points[k].x), y_of(a, s->points[k].y));
    cairo_stroke(c);
    cairo_set_dash(c, NULL, 0, 0);
    for (int k = 0; k < s->n && !s->reference; k++)
        dot(c, i, x_of(a, s->points[k].x), y_of(a, s->points[k].y));
}

static int by_x(const void *a, const void *b)
{
    const struct chart_point *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

/* A pale band along the marked points of all curves, below them. */
static void paint_band(const struct axes *a)
{
    const struct chart *chart = a->chart;
    int room = 0, n = 0;
    for (int s = 0; s < chart->nseries; s++)
        room += chart->series[s].n;
    struct chart_point *marked = malloc(((size_t)room + 1) * sizeof(*marked));
    if (!marked)
        return;
    for (int s = 0; s < chart->nseries; s++)
        for (int i = 0; i < chart->series[s].n; i++)
            if (chart->series[s].points[i].marked)
                marked[n++] = chart->series[s].points[i];
    qsort(marked, (size_t)n, sizeof(*marked), by_x);
    cairo_set_source_rgb(a->c, 1, 0.90, 0.55);
    cairo_set_line_width(a->c, 13);
    cairo_set_line_cap(a->c, CAIRO_LINE_CAP_ROUND);
    cairo_set_line_join(a->c, CAIRO_LINE_JOIN_ROUND);
    cairo_new_path(a->c);
    for (int i = 0; i < n; i++)
        cairo_line_to(a->c, x_of(a, marked[i].x), y_of(a, marked[i].y));
    if (n == 1)
        cairo_close_path(a->c);
    cairo_stroke(a->c);
    cairo_set_line_cap(a->c, CAIRO_LINE_CAP_BUTT);
    free(marked);
}

static void ring(cairo_t *c, double x, double y)
{
    cairo_set_source_rgb(c, 0.1, 0.1, 0.1);
    cairo_set_line_width(c, 1.5);
    cairo_new_path(c);
    cairo_arc(c, x, y, 6, 0, 4 * acos(0));
    cairo_stroke(c);
}

static void paint_rings(const struct axes *a)
{
    const struct chart *chart = a->chart;
    for (int s = 0; s < chart->nseries; s++)
        for (int i = 0; i < chart->series[s].n; i++)
            if (chart->series[s].points[i].marked)
                ring(a->c, x_of(a, chart->series[s].points[i].x),
                     y_of(a, chart->series[s].points[i].y));
}

/* The curve that ends highest first, as the eye meets them. */
static int next_in_legend(const struct chart *chart, const bool *taken)
{
    int next = -1;
    double highest = -INFINITY;
    for (int s = 0; s < chart->nseries; s++) {
        const struct chart_series *row = &chart->series[s];
        const double y = row->n ? row->points[row->n - 1].y : 0;
        if (!taken[s] && (next < 0 || y > highest)) {
            next = s;
            highest = y;
        }
    }
    return next;
}

/* Returns the height below the last line. */
static double paint_lines(cairo_t *c, double x, double y, const char *lines)
{
    char words[256];
    for (const char *at = lines; *at; y += 19) {
        const int length = (int)strcspn(at, "\n");
        snprintf(words, sizeof(words), "%.*s", length, at);
        text(c, x, y, 0, words);
        at += length + (at[length] == '\n');
    }
    return y;
}

static void paint_legend(const struct axes *a)
{
    const double x = a->right + 20;
    double y = a->top + 8;
    bool *taken = calloc((size_t)a->chart->nseries + 1, sizeof(*taken));
    set_font(a->c, 12.5, false);
    for (int s; taken && (s = next_in_legend(a->chart, taken)) >= 0;
         taken[s] = true) {
        const struct chart_series *row = &a->chart->series[s];
        set_colour(a->c, row, s);
        set_dashes(a->c, row, s);
        cairo_set_line_width(a->c, row->reference ? 1.5 : 2);
        line(a->c, x, y, x + 28, y);
        cairo_set_dash(a->c, NULL, 0, 0);
        if (!row->reference)
            dot(a->c, s, x + 14, y);
        set_grey(a->c, 0.1);
        y = paint_lines(a->c, x + 36, y + 4, row->name);
    }
    free(taken);
    if (a->chart->marked) {
        y += 10;
        cairo_set_source_rgb(a->c, 1, 0.90, 0.55);
        cairo_set_line_width(a->c, 13);
        line(a->c, x, y, x + 28, y);
        ring(a->c, x + 14, y);
        set_grey(a->c, 0.1);
        text(a->c, x + 36, y + 4, 0, a->chart->marked);
    }
}

static void paint(struct axes *a, bool legend)
{
    cairo_t *c = a->c;
    find_range(a);
    set_font(c, 12.5, false);
    cairo_set_line_width(c, 1);
    paint_y(a);
    paint_x(a);
    text(c, (a->left + a->right) / 2, a->low + 44, 0.5, a->chart->x_label);
    text(c, a->left - 60, a->top - 14, 0, a->chart->y_label);
    cairo_save(c);
    cairo_rectangle(c, a->left - 8, a->top - 8, a->right - a->left + 16,
                    a->low - a->top + 16);
    cairo_clip(c);
    if (a->chart->marked)
        paint_band(a);
    for (int s = 0; s < a->chart->nseries; s++)
        paint_curve(a, s);
    if (a->chart->marked)
        paint_rings(a);
    cairo_restore(c);
    if (legend)
        paint_legend(a);
}

static cairo_status_t write_piece(void *file, const unsigned char *data,
                                  unsigned int length)
{
    return fwrite(data, 1, length, file) == length ? CAIRO_STATUS_SUCCESS
                                                   : CAIRO_STATUS_WRITE_ERROR;
}

bool chart_write(const struct chart *charts, int ncharts, FILE *file)
{
    const int panel = ncharts > 1 ? PAIR_PANEL : PANEL;
    const int width = ncharts * (LEFT + panel) + LEGEND;
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, HEIGHT);
    cairo_t *c = cairo_create(surface);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    set_grey(c, 0.05);
    set_font(c, 18, true);
    text(c, 24, 30, 0, charts[0].title);
    set_font(c, 12.5, false);
    set_grey(c, 0.4);
    text(c, 24, 50, 0, charts[0].subtitle);
    for (int i = 0; i < ncharts; i++) {
        const double left = i * (LEFT + panel) + LEFT;
        paint(&(struct axes){.c = c,
                             .chart = &charts[i],
                             .left = left,
                             .right = left + panel,
                             .top = TOP,
                             .low = HEIGHT - LOW},
              i == ncharts - 1);
    }
    const cairo_status_t drawn = cairo_status(c);
    errno = drawn ? ENOMEM : errno;
    const bool ok =
        !drawn
        && cairo_surface_write_to_png_stream(surface, write_piece, file)
               == CAIRO_STATUS_SUCCESS;
    cairo_destroy(c);
    cairo_surface_destroy(surface);
    return ok;
}
