/* SPDX-License-Identifier: MIT */
/* What coll_sim train found: a table, JSON, CSV and a picture. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "programs/chart.h"
#include "programs/sim_train.h"

static const char *net_name(const struct training *t)
{
    const struct sim_options *o = &t->job->options;
    return o->net && !o->gradient_bytes ? o->net : "a net";
}

/* Of both operations, where an exchange has two that differ. */
struct names {
    char algorithm[64], order[64];
};

static void join(char *to, size_t bytes, const char *first, const char *second)
{
    const bool alike = !second || !strcmp(first, second);
    snprintf(to, bytes, "%s%s%s", first, alike ? "" : "+", alike ? "" : second);
}

static struct names names_of(const struct scaling *s)
{
    const struct trial *a = &s->buckets[0], *b = &s->buckets[1];
    struct names n = {"none", "given"};
    if (!a->algo)
        return n;
    join(n.algorithm, sizeof(n.algorithm), a->algo->name,
         b->algo ? b->algo->name : NULL);
    join(n.order, sizeof(n.order), layout_order_names[a->order],
         b->algo ? layout_order_names[b->order] : NULL);
    return n;
}

static double images(const struct training *t, const struct scaling *s)
{
    return (double)t->job->options.batch * s->nranks / s->step;
}

static void describe(const struct training *t, char *text, size_t bytes)
{
    char what[96];
    if (t->strategy->gradients)
        snprintf(what, sizeof(what),
                 "%.1f MB of gradients in buckets of %.1f MB",
                 (double)t->bytes * 1e-6, (double)t->bucket * 1e-6);
    else
        snprintf(what, sizeof(what), "%.1f MB of weights at each tau-th step",
                 (double)t->bytes * 1e-6);
    snprintf(text, bytes,
             "%s, %s, %g ms of computing a step, overlap %s, on %s",
             t->strategy->name, what, t->compute * 1e3,
             t->overlaps ? "on" : "off", t->job->options.cluster);
}

static void print_rows(const struct training *t)
{
    char text[512];
    const bool batch = t->job->options.batch > 0;
    describe(t, text, sizeof(text));
    printf("training of %s, simulated: %s\n\n", net_name(t), text);
    printf("%7s %5s  %-28s %-12s %12s %12s %12s %10s %10s %6s%s\n", "ranks",
           "tau", "algorithm", "rank order", "exchange ms", "exposed ms",
           "step ms", "speed-up", "efficiency", "comm",
           batch ? "     images/s" : "");
    for (int i = 0; i < t->nrows; i++) {
        const struct scaling *s = &t->rows[i];
        const struct names n = names_of(s);
        printf("%7d %5d  %-28s %-12s %12.3f %12.3f %12.3f %10.2f %9.2f%% "
               "%5.1f%%",
               s->nranks, s->tau, n.algorithm, n.order, s->communication * 1e3,
               s->exposed * 1e3, s->step * 1e3, s->nranks * efficiency(t, s),
               100 * efficiency(t, s), 100 * s->exposed / s->step);
        if (batch)
            printf(" %12.1f", images(t, s));
        printf("\n");
    }
}

static cJSON *json_row(const struct training *t, const struct scaling *s)
{
    cJSON *row = cJSON_CreateObject();
    const struct names n = names_of(s);
    cJSON_AddNumberToObject(row, "nranks", s->nranks);
    cJSON_AddNumberToObject(row, "tau", s->tau);
    cJSON_AddStringToObject(row, "algorithm", n.algorithm);
    cJSON_AddStringToObject(row, "rank_order", n.order);
    cJSON_AddNumberToObject(row, "segments", s->buckets[0].segments);
    cJSON_AddNumberToObject(row, "buckets", s->nbuckets);
    cJSON_AddNumberToObject(row, "bucket_us", s->bucket * 1e6);
    cJSON_AddNumberToObject(row, "exchange_ms", s->communication * 1e3);
    cJSON_AddNumberToObject(row, "exposed_ms", s->exposed * 1e3);
    cJSON_AddNumberToObject(row, "step_ms", s->step * 1e3);
    cJSON_AddNumberToObject(row, "speedup", s->nranks * efficiency(t, s));
    cJSON_AddNumberToObject(row, "efficiency", efficiency(t, s));
    cJSON_AddNumberToObject(row, "comm_share", s->exposed / s->step);
    if (t->job->options.batch)
        cJSON_AddNumberToObject(row, "images_per_s", images(t, s));
    return row;
}

static void write_json(const struct training *t)
{
    struct whole_file f;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "format", "coll_sim train 1");
    cJSON_AddStringToObject(root, "cluster", t->job->options.cluster);
    cJSON_AddStringToObject(root, "net", net_name(t));
    cJSON_AddStringToObject(root, "strategy", t->strategy->name);
    cJSON_AddNumberToObject(root, "gradient_bytes", (double)t->bytes);
    cJSON_AddNumberToObject(root, "bucket_bytes", (double)t->bucket);
    cJSON_AddNumberToObject(root, "compute_ms", t->compute * 1e3);
    cJSON_AddBoolToObject(root, "overlap", t->overlaps);
    cJSON *list = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < t->nrows; i++)
        cJSON_AddItemToArray(list, json_row(t, &t->rows[i]));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        sim_fail("no memory for the JSON");
    sim_open_file(t->job, &f, t->job->options.json);
    const bool ok = fprintf(f.stream, "%s\n", text) > 0;
    sim_publish(t->job, &f, ok);
    cJSON_free(text);
}

static void write_csv(const struct training *t)
{
    struct whole_file f;
    sim_open_file(t->job, &f, t->job->options.csv);
    fprintf(f.stream, "nranks,tau,algorithm,rank_order,segments,buckets,"
                      "bucket_us,exchange_ms,exposed_ms,step_ms,speedup,"
                      "efficiency,comm_share\n");
    for (int i = 0; i < t->nrows; i++) {
        const struct scaling *s = &t->rows[i];
        const struct names n = names_of(s);
        fprintf(f.stream,
                "%d,%d,%s,%s,%d,%.0f,%.6f,%.6f,%.6f,%.6f,%.6f,%.8f,"
                "%.8f\n",
                s->nranks, s->tau, n.algorithm, n.order, s->buckets[0].segments,
                s->nbuckets, s->bucket * 1e6, s->communication * 1e3,
                s->exposed * 1e3, s->step * 1e3, s->nranks * efficiency(t, s),
                efficiency(t, s), s->exposed / s->step);
    }
    sim_publish(t->job, &f, true);
}

/* --- a picture --------------------------------------------------------------
 */

static struct chart_point *points(int n)
{
    struct chart_point *p = calloc((size_t)n, sizeof(*p));
    if (!p)
        sim_fail("no memory for the picture");
    return p;
}

/* One curve for each tau, in both panels. */
static void fill(const struct training *t, int k, struct chart_series *speedup,
                 struct chart_series *share)
{
    const int n = t->job->nnranks;
    speedup->points = points(n);
    share->points = points(n);
    speedup->n = share->n = n;
    if (t->strategy->gradients)
        snprintf(share->name, sizeof(share->name), "%s, %s", net_name(t),
                 t->strategy->name);
    else
        snprintf(share->name, sizeof(share->name), "tau = %d", t->taus[k]);
    for (int i = 0; i < n; i++) {
        const struct scaling *s = &t->rows[i * t->ntaus + k];
        const double part = efficiency(t, s);
        speedup->points[i] =
            (struct chart_point){s->nranks, s->nranks * part, false};
        share->points[i] = (struct chart_point){s->nranks, 100 * part, false};
    }
}

static void fill_ideal(const struct training *t, struct chart_series *speedup,
                       struct chart_series *share)
{
    const int n = t->job->nnranks;
    *speedup =
        (struct chart_series){.points = points(n), .n = n, .reference = true};
    *share = *speedup;
    share->points = points(n);
    snprintf(share->name, sizeof(share->name), "no communication");
    for (int i = 0; i < n; i++) {
        const double x = t->job->nranks[i];
        speedup->points[i] = (struct chart_point){x, x, false};
        share->points[i] = (struct chart_point){x, 100, false};
    }
}

static void write_plot(const struct training *t)
{
    char title[128], subtitle[512];
    const int n = t->ntaus + 1;
    struct chart_series *series = calloc((size_t)(2 * n), sizeof(*series));
    struct whole_file f;
    if (!series)
        sim_fail("no memory for the picture");
    for (int k = 0; k < t->ntaus; k++)
        fill(t, k, &series[k], &series[n + k]);
    fill_ideal(t, &series[t->ntaus], &series[n + t->ntaus]);
    snprintf(title, sizeof(title), "Training of %s: weak scaling, simulated",
             net_name(t));
    describe(t, subtitle, sizeof(subtitle));
    const struct chart charts[2] = {
        {.title = title,
         .subtitle = subtitle,
         .x_label = "ranks",
         .y_label = "speed-up over one rank",
         .x_scale = CHART_NUMBERS,
         .y_scale = CHART_NUMBERS,
         .series = series,
         .nseries = n},
        {.x_label = "ranks",
         .y_label = "efficiency",
         .x_scale = CHART_NUMBERS,
         .y_scale = CHART_PERCENT,
         .series = series + n,
         .nseries = n},
    };
    sim_open_file(t->job, &f, t->job->options.plot);
    const bool ok = chart_write(charts, 2, f.stream);
    sim_publish(t->job, &f, ok);
    for (int i = 0; i < 2 * n; i++)
        free(series[i].points);
    free(series);
}

void sim_train_report(const struct training *t)
{
    print_rows(t);
    if (t->job->options.json)
        write_json(t);
    if (t->job->options.csv)
        write_csv(t);
    if (t->job->options.plot)
        write_plot(t);
}
