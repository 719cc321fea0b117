/* SPDX-License-Identifier: MIT */
/* --plot: p50 over size for each collective and algorithm, the limits, and the
 * baseline, on logarithmic axes. */
#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "report.h"

enum { WIDTH = 1000, HEIGHT = 640, LEFT = 80, RIGHT = 250, TOP = 50, LOW = 60 };

struct plot {
    cairo_t *c;
    double x0, x1, y0, y1; /* log10 of bytes and of microseconds */
    int nlegend, ncolours;
    bool several; /* collectives */
};

/* Okabe and Ito's colours, which the colour-blind can tell apart too. */
static const double colours[][3] = {
    {0.00, 0.45, 0.70},
    {0.84, 0.37, 0.00},
    {0.00, 0.62, 0.45},
    {0.80, 0.47, 0.65},
    {0.90, 0.62, 0.00},
    {0.34, 0.71, 0.91},
};
enum { NCOLOURS = sizeof colours / sizeof colours[0] };

static double x_of(const struct plot *p, double bytes)
{
    return LEFT
           + (log10(bytes) - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *p, double us)
{
    return HEIGHT - LOW
           - (log10(us) - p->y0) / (p->y1 - p->y0) * (HEIGHT - LOW - TOP);
}

/* A barrier has none, and is drawn where one byte would be. */
static double bytes_of(const struct bench_result *r)
{
    return r->bytes > 0 ? (double)r->bytes : 1;
}

static double p50_us(const struct bench_result *r)
{
    return r->p50 * 1e6;
}

static double limit_us(const struct bench_result *r)
{
    return r->limit * 1e6;
}

static double before_us(const struct bench_result *r)
{
    return r->before * 1e6;
}

static void include(struct plot *p, double bytes, double us)
{
    if (us <= 0)
        return;
    p->x0 = fmin(p->x0, log10(bytes));
    p->x1 = fmax(p->x1, log10(bytes));
    p->y0 = fmin(p->y0, log10(us));
    p->y1 = fmax(p->y1, log10(us));
}

/* Whole decades upwards, and some width even for a single point. */
static void find_range(struct plot *p, const struct bench *b)
{
    p->x0 = p->y0 = INFINITY;
    p->x1 = p->y1 = -INFINITY;
    for (int i = 0; i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        p->several |= r->collective != b->results[0].collective;
        include(p, bytes_of(r), p50_us(r));
        include(p, bytes_of(r), limit_us(r));
        include(p, bytes_of(r), before_us(r));
    }
    if (!(p->x1 > p->x0)) {
        p->x0 -= 0.5;
        p->x1 += 0.5;
    }
    p->y0 = floor(p->y0);
    p->y1 = fmax(ceil(p->y1), p->y0 + 1);
}

static void text(const struct plot *p, double x, double y, double align,
                 const char *words)
{
    cairo_text_extents_t size;
    cairo_text_extents(p->c, words, &size);
    cairo_move_to(p->c, x - align * size.width, y);
    cairo_show_text(p->c, words);
}

static void line(const struct plot *p, double x0, double y0, double x1,
                 double y1)
{
    cairo_move_to(p->c, x0, y0);
    cairo_line_to(p->c, x1, y1);
    cairo_stroke(p->c);
}

static void bytes_text(char *out, size_t size, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, size, "%g %s", bytes, units[unit]);
}

static void draw_axes(const struct plot *p, const struct bench *b,
                      const struct job *job)
{
    char words[256];
    cairo_set_line_width(p->c, 1);
    for (int e = (int)p->y0; e <= (int)p->y1; e++) {
        const double y = y_of(p, pow(10, e));
        cairo_set_source_rgb(p->c, 0.87, 0.87, 0.87);
        line(p, LEFT, y, WIDTH - RIGHT, y);
        cairo_set_source_rgb(p->c, 0, 0, 0);
        snprintf(words, sizeof words, "%g", pow(10, e));
        text(p, LEFT - 8, y + 4, 1, words);
    }
    const double log2_10 = log2(10);
    const int from = (int)ceil(p->x0 * log2_10 - 1e-9);
    const int to = (int)floor(p->x1 * log2_10 + 1e-9);
    const int step = (to - from) / 8 + 1;
    for (int e = from; e <= to; e += step) {
        const double x = x_of(p, pow(2, e));
        cairo_set_source_rgb(p->c, 0.87, 0.87, 0.87);
        line(p, x, TOP, x, HEIGHT - LOW);
        cairo_set_source_rgb(p->c, 0, 0, 0);
        bytes_text(words, sizeof words, pow(2, e));
        text(p, x, HEIGHT - LOW + 20, 0.5, words);
    }
    text(p, LEFT, HEIGHT - 12, 0, "vector length");
    text(p, 8, TOP - 12, 0, "microseconds (p50)");
    snprintf(words, sizeof words, "%s %s %s, %d ranks on %d host%s, %s",
             p->several ? "collectives"
                        : collective_name(b->results[0].collective),
             coll_dtype_name(b->options.dtype), coll_op_name(b->options.op),
             job->nranks, job->nhosts, job->nhosts == 1 ? "" : "s", b->machine);
    text(p, LEFT, 20, 0, words);
}

static void legend(struct plot *p, const char *words)
{
    const double x = WIDTH - RIGHT + 16, y = TOP + 12 + 20 * p->nlegend++;
    line(p, x, y, x + 26, y);
    cairo_set_dash(p->c, NULL, 0, 0);
    text(p, x + 34, y + 4, 0, words);
}

/* A curve: the rows of a collective, with one algorithm or with any (NULL). */
struct curve {
    enum collective collective;
    const char *algorithm;
    double (*us)(const struct bench_result *);
};

static bool on_curve(const struct curve *k, const struct bench_result *r)
{
    return r->collective == k->collective && k->us(r) > 0
           && (!k->algorithm || strcmp(r->algorithm, k->algorithm) == 0);
}

static void draw_curve(const struct plot *p, const struct bench *b,
                       const struct curve *k)
{
    bool any = false;
    for (int i = 0; i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        if (!on_curve(k, r))
            continue;
        const double x = x_of(p, bytes_of(r)), y = y_of(p, k->us(r));
        if (any)
            cairo_line_to(p->c, x, y);
        else
            cairo_move_to(p->c, x, y);
        any = true;
    }
    cairo_stroke(p->c);
    for (int i = 0; k->algorithm && i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        if (!on_curve(k, r))
            continue;
        cairo_arc(p->c, x_of(p, bytes_of(r)), y_of(p, k->us(r)), 3, 0,
                  2 * acos(-1));
        cairo_fill(p->c);
    }
}

static bool same_curve(const struct bench_result *r,
                       const struct bench_result *s)
{
    return r->collective == s->collective
           && strcmp(r->algorithm, s->algorithm) == 0;
}

static bool seen_before(const struct bench *b, int i)
{
    for (int k = 0; k < i; k++)
        if (same_curve(&b->results[k], &b->results[i]))
            return true;
    return false;
}

/* Of several collectives each curve says whose it is. */
static void name_curve(struct plot *p, enum collective c, const char *words)
{
    char both[128];
    snprintf(both, sizeof both, "%s%s%s", p->several ? collective_name(c) : "",
             p->several ? ": " : "", words);
    legend(p, both);
}

/* Without points, and with a legend only if it has rows. */
static void draw_dashed(struct plot *p, const struct bench *b,
                        const struct curve *k, const char *words)
{
    static const double dashes[] = {6, 4};
    bool any = false;
    for (int i = 0; i < b->nresults; i++)
        any = any || on_curve(k, &b->results[i]);
    if (!any)
        return;
    cairo_set_dash(p->c, dashes, 2, 0);
    draw_curve(p, b, k);
    name_curve(p, k->collective, words);
}

/* The limit of several collectives has the colour of the last curve. */
static void draw_collective(struct plot *p, const struct bench *b,
                            enum collective c)
{
    for (int i = 0; i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        if (r->collective != c || seen_before(b, i))
            continue;
        const double *const rgb = colours[p->ncolours++ % NCOLOURS];
        cairo_set_source_rgb(p->c, rgb[0], rgb[1], rgb[2]);
        draw_curve(p, b, &(struct curve){c, r->algorithm, p50_us});
        name_curve(p, c, r->algorithm);
    }
    if (!p->several)
        cairo_set_source_rgb(p->c, 0.3, 0.3, 0.3);
    draw_dashed(p, b, &(struct curve){c, NULL, limit_us}, "limit");
    cairo_set_source_rgb(p->c, 0.65, 0.65, 0.65);
    draw_dashed(p, b, &(struct curve){c, NULL, before_us}, "baseline");
}

static void draw_curves(struct plot *p, const struct bench *b)
{
    cairo_set_line_width(p->c, 2);
    for (int c = 0; c < NCOLLECTIVES; c++)
        draw_collective(p, b, (enum collective)c);
}

bool plot_write(const struct bench *b, const struct job *job,
                struct report_error *error)
{
    cairo_surface_t *const surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    struct plot p = {.c = cairo_create(surface)};
    cairo_set_source_rgb(p.c, 1, 1, 1);
    cairo_paint(p.c);
    cairo_select_font_face(p.c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(p.c, 13);
    find_range(&p, b);
    draw_axes(&p, b, job);
    draw_curves(&p, b);
    char *const temporary = files_temporary(b->options.plot);
    errno = ENOMEM;
    const bool ok = temporary
                    && cairo_surface_write_to_png(surface, temporary)
                           == CAIRO_STATUS_SUCCESS;
    cairo_destroy(p.c);
    cairo_surface_destroy(surface);
    return files_publish(temporary, b->options.plot, ok, error);
}
