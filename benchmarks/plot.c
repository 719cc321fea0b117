/* SPDX-License-Identifier: MIT */
/* --plot: p50 over size for each collective and algorithm, the limits, and the
 * baseline, on logarithmic axes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "programs/chart.h"
#include "programs/whole_file.h"
#include "report.h"

/* A curve: the rows of a collective, with one algorithm or with any (NULL). */
struct curve {
    enum collective collective;
    const char *algorithm;
    double (*seconds)(const struct bench_result *);
};

static double p50(const struct bench_result *r)
{
    return r->p50;
}

static double limit(const struct bench_result *r)
{
    return r->limit;
}

static double before(const struct bench_result *r)
{
    return r->before;
}

static bool on_curve(const struct curve *k, const struct bench_result *r)
{
    return r->collective == k->collective && k->seconds(r) > 0
           && (!k->algorithm || strcmp(r->algorithm, k->algorithm) == 0);
}

/* The results as series; each collective has its own names if there are
 * several. */
struct plot {
    const struct bench *bench;
    struct chart chart;
    bool several;
};

/* Returns the number of the series from 1, or 0 if it has no points. A barrier
 * has no length, and is drawn where one byte would be. */
static int add(struct plot *p, const struct curve *k, const char *words)
{
    const struct bench *b = p->bench;
    struct chart_series *const s = &p->chart.series[p->chart.nseries];
    s->points = calloc((size_t)b->nresults, sizeof *s->points);
    for (int i = 0; s->points && i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        if (on_curve(k, r))
            s->points[s->n++] = (struct chart_point){
                r->bytes > 0 ? (double)r->bytes : 1, k->seconds(r), false};
    }
    if (s->n == 0) {
        free(s->points);
        return 0;
    }
    snprintf(s->name, sizeof s->name, "%s%s%s",
             p->several ? collective_name(k->collective) : "",
             p->several ? ": " : "", words);
    return ++p->chart.nseries;
}

static void add_reference(struct plot *p, const struct curve *k,
                          const char *words, int of)
{
    const int added = add(p, k, words);
    if (!added)
        return;
    p->chart.series[added - 1].reference = true;
    p->chart.series[added - 1].of = of;
}

static bool seen_before(const struct bench *b, int i)
{
    const struct bench_result *const r = &b->results[i];
    for (int k = 0; k < i; k++)
        if (b->results[k].collective == r->collective
            && strcmp(b->results[k].algorithm, r->algorithm) == 0)
            return true;
    return false;
}

/* The limit of several collectives has the colour of the last curve, the
 * baseline that of the first. */
static void add_collective(struct plot *p, enum collective c)
{
    int first = 0, last = 0;
    for (int i = 0; i < p->bench->nresults; i++) {
        const struct bench_result *const r = &p->bench->results[i];
        if (r->collective != c || seen_before(p->bench, i))
            continue;
        last = add(p, &(struct curve){c, r->algorithm, p50}, r->algorithm);
        first = first ? first : last;
    }
    add_reference(p, &(struct curve){c, NULL, limit}, "limit",
                  p->several ? last : 0);
    add_reference(p, &(struct curve){c, NULL, before}, "baseline", first);
}

bool plot_write(const struct bench *b, const struct job *job,
                struct report_error *error)
{
    char title[256];
    struct plot p = {.bench = b};
    for (int i = 1; i < b->nresults; i++)
        p.several |= b->results[i].collective != b->results[0].collective;
    snprintf(title, sizeof title, "%s of %s, %s",
             p.several ? "Collectives"
                       : collective_name(b->results[0].collective),
             coll_dtype_name(b->options.dtype), coll_op_name(b->options.op));
    char subtitle[256];
    snprintf(subtitle, sizeof subtitle, "%d ranks on %d host%s, %s",
             job->nranks, job->nhosts, job->nhosts == 1 ? "" : "s", b->machine);
    p.chart = (struct chart){
        .title = title,
        .subtitle = subtitle,
        .x_label = "bytes of the vector",
        .y_label = "time (p50)",
        .x_scale = CHART_BYTES,
        .y_scale = CHART_SECONDS,
        /* At most a curve for each row, and two for each collective. */
        .series = calloc((size_t)b->nresults + 2 * NCOLLECTIVES,
                         sizeof *p.chart.series),
    };
    struct whole_file file;
    const bool begun = whole_file_begin(&file, b->options.plot, error->text,
                                        sizeof error->text);
    for (int c = 0; p.chart.series && c < NCOLLECTIVES; c++)
        add_collective(&p, (enum collective)c);
    errno = ENOMEM;
    const bool ok =
        begun && p.chart.series && chart_write(&p.chart, 1, file.stream);
    for (int i = 0; i < p.chart.nseries; i++)
        free(p.chart.series[i].points);
    free(p.chart.series);
    return begun && whole_file_end(&file, ok, error->text, sizeof error->text);
}
