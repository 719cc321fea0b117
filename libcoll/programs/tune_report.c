/* SPDX-License-Identifier: MIT */
#include "programs/tune_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/json.h"
#include "programs/chart.h"
#include "programs/tune_store.h"
#include "programs/whole_file.h"

/* --- table ------------------------------------------------------------------
 */

void tune_table_head(int nranks)
{
    printf("%d ranks; times are the middle of the last samples\n", nranks);
    printf("%-15s %11s  %-26s %-11s %9s %9s %6s  %-36s %9s %6s %5s\n",
           "collective", "bytes", "chosen", "rank order", "measured",
           "predicted", "ratio", "runner-up", "measured", "tried", "runs");
}

/* "ring", "ring (block)" */
static const char *title(const coll_candidate *c, char *text, size_t bytes)
{
    const bool given = !strcmp(c->rank_order, "given");
    snprintf(text, bytes, given ? "%s" : "%s (%s)", c->algorithm,
             c->rank_order);
    return text;
}

void tune_table_row(const struct tune_result *r)
{
    const coll_candidate *c = r->candidates, *next = tune_runner_up(r);
    char measured[24] = "-", predicted[24] = "-", ratio[24] = "-";
    char other[80] = "-", others[24] = "-";
    if (c->samples)
        tune_spoken(c->measured_seconds, measured);
    if (c->predicted_seconds >= 0)
        tune_spoken(c->predicted_seconds, predicted);
    if (c->samples && c->predicted_seconds > 0)
        snprintf(ratio, sizeof(ratio), "%.2f",
                 c->measured_seconds / c->predicted_seconds);
    if (next) {
        title(next, other, sizeof(other));
        tune_spoken(next->measured_seconds, others);
    }
    printf("%-15s ", r->collective);
    if (strcmp(r->collective, "barrier"))
        printf("%11zu", r->bytes);
    else
        printf("%11s", "");
    printf("  %-26s %-11s %9s %9s %6s  %-36s %9s %6d %5ld\n", c->algorithm,
           c->rank_order, measured, predicted, ratio, other, others,
           tune_measured(r), r->operations);
    fflush(stdout);
}

/* The power of two that is not above it: what is learned serves up to the
 * next. */
static size_t octave(size_t bytes)
{
    size_t x = 1;
    while (x <= bytes / 2)
        x *= 2;
    return x;
}

/* Lengths between two that were run, of which nothing was learned. */
static void tell_gaps(const struct tune_report *t)
{
    int gaps = 0;
    size_t from = 0, to = 0;
    for (int i = 1; i < t->n; i++) {
        const struct tune_result *a = &t->results[i - 1], *b = a + 1;
        if (a->native || b->native || strcmp(a->collective, b->collective)
            || octave(b->bytes) <= 2 * octave(a->bytes))
            continue;
        if (gaps++ == 0) {
            from = 2 * octave(a->bytes);
            to = octave(b->bytes) - 1;
        }
    }
    if (gaps)
        printf("Lengths from %zu to %zu bytes%s were not run: there the choice "
               "keeps to the model. -f 2 leaves none out.\n",
               from, to, gaps > 1 ? ", and others," : "");
}

void tune_table_foot(const struct tune_report *t)
{
    int learned = 0, kept = 0, priced = 0;
    double off = 0;
    for (int i = 0; i < t->n; i++) {
        const struct tune_result *r = &t->results[i];
        const coll_candidate *c = r->candidates;
        if (r->native || !c->samples)
            continue;
        learned++;
        kept += tune_predicted(r) == c;
        if (c->predicted_seconds > 0) {
            priced++;
            off += fabs(log(c->measured_seconds / c->predicted_seconds));
        }
    }
    if (learned)
        printf("The model's own choice stayed at %d of %d lengths", kept,
               learned);
    if (learned && priced)
        printf("; its times were off by a factor of %.2f on average",
               exp(off / priced));
    printf("%s", learned ? ".\n" : "");
    tell_gaps(t);
}

/* --- files ------------------------------------------------------------------
 */

static bool write_whole(const struct tune_report *t, const char *path,
                        bool (*write)(const struct tune_report *, FILE *))
{
    struct whole_file file;
    char error[1024];
    if (whole_file_begin(&file, path, error, sizeof(error))
        && whole_file_end(&file, write(t, file.stream), error, sizeof(error)))
        return true;
    fprintf(stderr, "coll_tune: %s\n", error);
    return false;
}

/* --- JSON -------------------------------------------------------------------
 */

static double in_us(double seconds)
{
    return seconds < 0 ? -1 : 1e6 * seconds;
}

static void json_measured(struct json *j, const coll_candidate *c)
{
    json_text(j, "algorithm", c->algorithm);
    json_text(j, "rank_order", c->rank_order);
    json_number(j, "segments", c->segments);
    json_number(j, "measured_us", in_us(c->measured_seconds));
    json_number(j, "predicted_us", in_us(c->predicted_seconds));
    json_number(j, "samples", c->samples);
}

static void json_candidate(struct json *j, const coll_candidate *c)
{
    json_begin(j, NULL, '{');
    json_measured(j, c);
    json_number(j, "chosen", c->chosen);
    json_text(j, "why", c->why);
    json_end(j, '}');
}

static void json_result(struct json *j, const struct tune_result *r)
{
    json_begin(j, NULL, '{');
    json_text(j, "collective", r->collective);
    json_number(j, "bytes", (double)r->bytes);
    json_number(j, "count", (double)r->count);
    json_measured(j, r->candidates);
    json_text(j, "predicted_algorithm", tune_predicted(r)->algorithm);
    json_text(j, "predicted_rank_order", tune_predicted(r)->rank_order);
    json_number(j, "operations", (double)r->operations);
    json_number(j, "seconds", r->seconds);
    json_begin(j, "candidates", '[');
    for (int i = 0; i < r->n; i++)
        json_candidate(j, &r->candidates[i]);
    json_end(j, ']');
    json_end(j, '}');
}

static bool json_to(const struct tune_report *t, FILE *file)
{
    struct json j = {.file = file};
    json_begin(&j, NULL, '{');
    json_text(&j, "format", "coll_tune 1");
    json_number(&j, "nranks", t->nranks);
    json_text(&j, "dtype", t->dtype);
    json_text(&j, "stored", t->stored ? t->stored : "");
    json_text(&j, "note", t->note ? t->note : "");
    json_begin(&j, "results", '[');
    for (int i = 0; i < t->n; i++)
        json_result(&j, &t->results[i]);
    json_end(&j, ']');
    json_end(&j, '}');
    return true;
}

bool tune_write_json(const struct tune_report *t, const char *path)
{
    return write_whole(t, path, json_to);
}

/* --- plot -------------------------------------------------------------------
 */

enum { MOST_CURVES = 26 }; /* that the legend has room for */

struct curve {
    const char *algorithm, *order;
    double from_best; /* how near it ever was to what is chosen, a factor */
};

struct picture {
    struct curve *curve;
    int ncurves;
    struct chart charts[8];
    int ncharts;
};

static bool is_of(const struct curve *curve, const coll_candidate *c)
{
    return !strcmp(curve->algorithm, c->algorithm)
           && !strcmp(curve->order, c->rank_order);
}

static void add_curve(struct picture *p, const coll_candidate *c,
                      const coll_candidate *best)
{
    const double far = c->measured_seconds / best->measured_seconds;
    int i = 0;
    while (i < p->ncurves && !is_of(&p->curve[i], c))
        i++;
    if (i == p->ncurves)
        p->curve[p->ncurves++] =
            (struct curve){c->algorithm, c->rank_order, INFINITY};
    p->curve[i].from_best = fmin(p->curve[i].from_best, far);
}

static int by_distance(const void *a, const void *b)
{
    const struct curve *x = a, *y = b;
    return (x->from_best > y->from_best) - (x->from_best < y->from_best);
}

static bool has_length(const struct tune_result *r)
{
    return strcmp(r->collective, "barrier") && r->candidates->samples > 0;
}

/* All that was measured of any collective; those that were ever near the best
 * first, and no more than can be told apart. */
static bool find_curves(const struct tune_report *t, struct picture *p)
{
    size_t room = 1;
    for (int i = 0; i < t->n; i++)
        room += (size_t)t->results[i].n;
    p->curve = calloc(room, sizeof(*p->curve));
    if (!p->curve)
        return false;
    for (int i = 0; i < t->n; i++) {
        const struct tune_result *r = &t->results[i];
        for (int k = 0; k < r->n && has_length(r); k++)
            if (r->candidates[k].samples)
                add_curve(p, &r->candidates[k], r->candidates);
    }
    qsort(p->curve, (size_t)p->ncurves, sizeof(*p->curve), by_distance);
    if (p->ncurves > MOST_CURVES)
        p->ncurves = MOST_CURVES;
    return true;
}

static bool fill_series(const struct tune_report *t, const char *collective,
                        const struct curve *curve, struct chart_series *s)
{
    snprintf(s->name, sizeof(s->name), "%s%s%s%s", curve->algorithm,
             strcmp(curve->order, "given") ? " (" : "",
             strcmp(curve->order, "given") ? curve->order : "",
             strcmp(curve->order, "given") ? ")" : "");
    s->points = calloc((size_t)t->n + 1, sizeof(*s->points));
    for (int i = 0; i < t->n && s->points; i++) {
        const struct tune_result *r = &t->results[i];
        for (int k = 0; k < r->n && !strcmp(r->collective, collective); k++) {
            const coll_candidate *c = &r->candidates[k];
            if (c->samples && has_length(r) && is_of(curve, c))
                s->points[s->n++] = (struct chart_point){
                    (double)r->bytes, c->measured_seconds, c->chosen};
        }
    }
    return s->points != NULL;
}

/* Every panel has all curves, so that the one legend fits all. */
static bool add_chart(const struct tune_report *t, const char *collective,
                      struct picture *p)
{
    struct chart *chart = &p->charts[p->ncharts++];
    *chart = (struct chart){
        .title = "Time over length",
        .x_label = "bytes of the vector",
        .y_label = collective,
        .marked = t->marked,
        .x_scale = CHART_BYTES,
        .y_scale = CHART_SECONDS,
        .series = calloc((size_t)p->ncurves + 1, sizeof(*chart->series)),
    };
    bool ok = chart->series != NULL;
    for (int i = 0; ok && i < p->ncurves; i++, chart->nseries++)
        ok = fill_series(t, collective, &p->curve[i], &chart->series[i]);
    return ok;
}

static bool plot_to(const struct tune_report *t, FILE *file)
{
    struct picture p = {.ncurves = 0};
    bool ok = find_curves(t, &p);
    for (int i = 0; ok && i < t->n; i++)
        if (has_length(&t->results[i])
            && (!p.ncharts
                || strcmp(p.charts[p.ncharts - 1].y_label,
                          t->results[i].collective)))
            ok = add_chart(t, t->results[i].collective, &p);
    p.charts[0].subtitle = t->subtitle;
    if (ok)
        ok = chart_write(p.charts, p.ncharts, file);
    else
        errno = ENOMEM;
    for (int c = 0; c < p.ncharts; c++) {
        for (int i = 0; p.charts[c].series && i < p.ncurves; i++)
            free(p.charts[c].series[i].points);
        free(p.charts[c].series);
    }
    free(p.curve);
    return ok;
}

bool tune_write_plot(const struct tune_report *t, const char *path)
{
    int plottable = 0;
    for (int i = 0; i < t->n; i++)
        plottable += has_length(&t->results[i]);
    if (!plottable) {
        printf("Nothing was measured that could be drawn; %s is not "
               "written.\n",
               path);
        return true;
    }
    return write_whole(t, path, plot_to);
}
