/* SPDX-License-Identifier: MIT */
/* What coll_sim COLLECTIVE found: for people, and in the format "coll_sim 1",
 * whose keys may be added to, never renamed. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "programs/sim.h"
#include "programs/chart.h"

static size_t bytes_of(const struct sim_results *r, const struct trial *t)
{
    return r->kind == BARRIER ? 0 : t->bytes;
}

/* --- a table ----------------------------------------------------------------
 */

static const char *words_of(size_t bytes, char *text, size_t size)
{
    const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    while (bytes >= 1024 && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%zu%s", bytes, units[unit]);
    return text;
}

static void print_head(const struct sim_results *r)
{
    char text[256];
    const struct sim_job *job = r->job;
    world_print(r->trials[r->n - 1].world, text, sizeof(text));
    printf("%s on %s, simulated: %s%s\n\n", kind_names[r->kind],
           job->options.cluster, job->nnranks > 1 ? "up to " : "", text);
    printf("%7s %7s  %-24s %-11s %8s %14s %9s %10s\n", "ranks", "bytes",
           "algorithm", "rank order", "segments", "simulated us", "x fastest",
           "messages");
}

/* Of one world and size; the fastest stands first. */
static bool alike(const struct trial *a, const struct trial *b)
{
    return a->world == b->world && a->bytes == b->bytes;
}

void sim_print_table(const struct sim_results *r)
{
    char text[64];
    bool groups = false;
    const struct trial *fastest = r->trials;
    for (int i = 1; i < r->n; i++)
        groups |= alike(&r->trials[i - 1], &r->trials[i]);
    print_head(r);
    for (int i = 0; i < r->n; i++) {
        const struct trial *t = &r->trials[i];
        const bool next = !alike(fastest, t);
        if (next)
            fastest = t;
        printf("%s%7d %7s  %-24s %-11s %8d %14.3f %9.2f %10.0f%s\n",
               next && groups ? "\n" : "", t->world->nranks,
               words_of(bytes_of(r, t), text, sizeof(text)), t->algo->name,
               layout_order_names[t->order], t->segments, t->seconds * 1e6,
               fastest->seconds > 0 ? t->seconds / fastest->seconds : 1,
               t->messages, t->chosen ? "  <- chosen" : "");
    }
}

/* --- JSON and CSV -----------------------------------------------------------
 */

static cJSON *crossing_of(const struct trial *t)
{
    const struct layout *l = &t->world->layout;
    cJSON *crossing = cJSON_CreateObject();
    for (int k = 0; k < l->net.nlevels; k++)
        cJSON_AddNumberToObject(crossing, l->level_name[k],
                                (double)t->crossing[k]);
    if (t->crossing[l->net.nlevels])
        cJSON_AddNumberToObject(crossing, "local",
                                (double)t->crossing[l->net.nlevels]);
    return crossing;
}

static cJSON *row_of(const struct sim_results *r, const struct trial *t)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "bytes", (double)bytes_of(r, t));
    cJSON_AddNumberToObject(row, "nranks", t->world->nranks);
    cJSON_AddNumberToObject(row, "nhosts", t->world->nhosts);
    cJSON_AddStringToObject(row, "algorithm", t->algo->name);
    cJSON_AddStringToObject(row, "rank_order", layout_order_names[t->order]);
    cJSON_AddNumberToObject(row, "segments", t->segments);
    cJSON_AddNumberToObject(row, "messages", t->messages);
    cJSON_AddNumberToObject(row, "plan_us", t->plan_seconds * 1e6);
    cJSON_AddNumberToObject(row, "plan_bytes", (double)t->plan_bytes);
    if (t->state != TRIAL_DONE)
        return row;
    cJSON_AddNumberToObject(row, "simulated_us", t->seconds * 1e6);
    cJSON_AddNumberToObject(row, "bytes_sent", (double)t->bytes_sent);
    cJSON_AddItemToObject(row, "crossing", crossing_of(t));
    cJSON_AddBoolToObject(row, "chosen", t->chosen);
    cJSON_AddNumberToObject(row, "rehearse_ms", t->rehearse_seconds * 1e3);
    return row;
}

static cJSON *pricing_of(int nranks, const struct sim_pricing *p)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "nranks", nranks);
    cJSON_AddNumberToObject(row, "rehearsals", p->rehearsals);
    cJSON_AddNumberToObject(row, "cpu_s", p->seconds);
    return row;
}

/* The most memory that this process has had; 0: the kernel does not tell. */
static double peak_kib(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, "VmHWM:", 6))
            kib = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return kib;
}

void sim_write_json(const struct sim_results *r)
{
    struct whole_file f;
    const struct sim_job *job = r->job;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "format", "coll_sim 1");
    cJSON_AddStringToObject(root, "collective", kind_names[r->kind]);
    cJSON_AddStringToObject(root, "cluster", job->options.cluster);
    cJSON_AddNumberToObject(root, "nranks", job->nranks[job->nnranks - 1]);
    cJSON_AddNumberToObject(root, "ranks_per_host",
                            (double)job->options.ranks_per_host);
    cJSON_AddStringToObject(root, "place", job->options.place);
    cJSON_AddNumberToObject(root, "peak_kib", peak_kib());
    cJSON *list = cJSON_AddArrayToObject(root, "pricing");
    for (int i = 0; i < job->nnranks && r->pricing; i++)
        if (r->pricing[i].rehearsals)
            cJSON_AddItemToArray(list,
                                 pricing_of(job->nranks[i], &r->pricing[i]));
    list = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < r->n; i++)
        cJSON_AddItemToArray(list, row_of(r, &r->trials[i]));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        sim_fail("no memory for the JSON");
    sim_open_file(job, &f, job->options.json);
    const bool ok = fprintf(f.stream, "%s\n", text) > 0;
    sim_publish(job, &f, ok);
    cJSON_free(text);
}

void sim_write_csv(const struct sim_results *r)
{
    struct whole_file f;
    sim_open_file(r->job, &f, r->job->options.csv);
    fprintf(f.stream, "collective,bytes,nranks,nhosts,algorithm,rank_order,"
                    "segments,simulated_us,messages,bytes_sent,chosen,plan_us,"
                    "plan_bytes,rehearse_ms\n");
    for (int i = 0; i < r->n; i++) {
        const struct trial *t = &r->trials[i];
        const bool done = t->state == TRIAL_DONE;
        fprintf(f.stream, "%s,%zu,%d,%d,%s,%s,%d,", kind_names[r->kind],
                bytes_of(r, t), t->world->nranks, t->world->nhosts,
                t->algo->name, layout_order_names[t->order], t->segments);
        if (done)
            fprintf(f.stream, "%.6f,%.0f,%llu,", t->seconds * 1e6, t->messages,
                    (unsigned long long)t->bytes_sent);
        else
            fprintf(f.stream, ",%.0f,,", t->messages);
        fprintf(f.stream, "%s,%.3f,%zu,", t->chosen ? "true" : "false",
                t->plan_seconds * 1e6, t->plan_bytes);
        fprintf(f.stream, done ? "%.3f\n" : "\n", t->rehearse_seconds * 1e3);
    }
    sim_publish(r->job, &f, true);
}

/* --- a picture --------------------------------------------------------------
 */

/* More curves than this are hard to tell apart: then there is one for each
 * algorithm, in its best order. */
enum { MANY = 8 };

static bool is_curve(const struct trial *t, const struct trial *of,
                     bool by_order)
{
    return t->algo == of->algo && (!by_order || t->order == of->order);
}

static int count_curves(const struct sim_results *r)
{
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = is_curve(&r->trials[k], &r->trials[i], true);
        n += !seen;
    }
    return n;
}

static double x_of(const struct sim_results *r, const struct trial *t)
{
    return r->job->nnranks > 1 ? t->world->nranks : (double)t->bytes;
}

/* Trials stand by ascending x, and at one x the fastest first. */
static void fill_curve(const struct sim_results *r, const struct trial *of,
                       bool by_order, struct chart_series *s)
{
    s->points = calloc((size_t)r->n, sizeof(*s->points));
    if (!s->points)
        sim_fail("no memory for the picture");
    for (int i = 0; i < r->n; i++) {
        const struct trial *t = &r->trials[i];
        const double x = x_of(r, t);
        if (!is_curve(t, of, by_order) || t->seconds <= 0)
            continue;
        if (s->n > 0 && s->points[s->n - 1].x >= x)
            s->points[s->n - 1].marked |= t->chosen;
        else
            s->points[s->n++] = (struct chart_point){x, t->seconds, t->chosen};
    }
    snprintf(s->name, sizeof(s->name), by_order ? "%s, %s" : "%s",
             of->algo->name, layout_order_names[of->order]);
}

/* The choice itself where nothing else was simulated. */
static void fill_choice(const struct sim_results *r, struct chart_series *s)
{
    s->points = calloc((size_t)r->n, sizeof(*s->points));
    if (!s->points)
        sim_fail("no memory for the picture");
    for (int i = 0; i < r->n; i++)
        if (r->trials[i].seconds > 0)
            s->points[s->n++] = (struct chart_point){
                x_of(r, &r->trials[i]), r->trials[i].seconds, false};
    snprintf(s->name, sizeof(s->name), "what is chosen");
}

/* Whether two curves would hide one another. */
static bool hides(const struct chart_series *a, const struct chart_series *b)
{
    for (int i = 0; i < a->n && a->n == b->n; i++)
        if (a->points[i].x != b->points[i].x
            || fabs(a->points[i].y / b->points[i].y - 1) > 0.002)
            return false;
    return a->n == b->n;
}

/* Curves that are one become one, with both names. */
static void add_curve(struct chart *chart, struct chart_series *curve)
{
    for (int s = 0; s < chart->nseries; s++) {
        struct chart_series *other = &chart->series[s];
        const size_t length = strlen(other->name);
        if (!hides(other, curve))
            continue;
        snprintf(other->name + length, sizeof(other->name) - length, "\n%s",
                 curve->name);
        for (int i = 0; i < curve->n; i++)
            other->points[i].marked |= curve->points[i].marked;
        free(curve->points);
        return;
    }
    chart->series[chart->nseries++] = *curve;
}

static void fill_curves(const struct sim_results *r, bool by_order,
                        struct chart *chart)
{
    for (int i = 0; i < r->n; i++) {
        struct chart_series curve = {.n = 0};
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = is_curve(&r->trials[k], &r->trials[i], by_order);
        if (seen)
            continue;
        fill_curve(r, &r->trials[i], by_order, &curve);
        add_curve(chart, &curve);
    }
}

/* The same curves over what is fastest, where their crossings are plain. */
static void fill_relative(const struct sim_results *r,
                          const struct chart *chart, struct chart *relative)
{
    for (int s = 0; s < chart->nseries; s++) {
        struct chart_series *to = &relative->series[s];
        *to = chart->series[s];
        to->points = calloc((size_t)to->n + 1, sizeof(*to->points));
        if (!to->points)
            sim_fail("no memory for the picture");
        for (int i = 0; i < to->n; i++) {
            const double x = chart->series[s].points[i].x;
            int fastest = 0;
            while (x_of(r, &r->trials[fastest]) < x
                   || r->trials[fastest].seconds <= 0)
                fastest++;
            to->points[i] = chart->series[s].points[i];
            to->points[i].y /= r->trials[fastest].seconds;
        }
    }
    relative->nseries = chart->nseries;
}

static void entitle(const struct sim_results *r, bool by_order, char *title,
                    char *subtitle, size_t size)
{
    char text[256], bytes[32];
    const bool several = r->job->nnranks > 1;
    world_print(r->trials[r->n - 1].world, text, sizeof(text));
    snprintf(subtitle, size, "%s%s; %s%s", several ? "up to " : "", text,
             r->job->options.cluster,
             by_order ? "" : "; each algorithm in its best rank order");
    if (several && r->kind != BARRIER)
        snprintf(title, size, "%s of %s bytes, simulated", kind_names[r->kind],
                 words_of(r->trials[0].bytes, bytes, sizeof(bytes)));
    else
        snprintf(title, size, "%s, simulated", kind_names[r->kind]);
}

void sim_write_plot(const struct sim_results *r)
{
    enum { TEXT = 512 };
    char title[TEXT], subtitle[TEXT];
    const bool several = r->job->nnranks > 1, all = r->job->options.algo;
    const bool by_order = count_curves(r) <= MANY;
    struct chart charts[2] = {
        {
         .title = title,
         .subtitle = subtitle,
         .x_label = several ? "ranks" : "vector length",
         .y_label = "time",
         .x_scale = several ? CHART_NUMBERS : CHART_BYTES,
         .y_scale = CHART_SECONDS,
         .series = calloc((size_t)r->n + 1, sizeof(struct chart_series)),
         },
    };
    charts[0].marked = all ? "what the library would choose" : NULL;
    charts[1] = charts[0];
    charts[1].y_label = "time over that of the fastest here";
    charts[1].y_scale = CHART_NUMBERS;
    charts[1].y_most = 8;
    charts[1].series = calloc((size_t)r->n + 1, sizeof(struct chart_series));
    if (!charts[0].series || !charts[1].series)
        sim_fail("no memory for the picture");
    entitle(r, by_order, title, subtitle, TEXT);
    if (all)
        fill_curves(r, by_order, &charts[0]);
    else
        fill_choice(r, &charts[0].series[charts[0].nseries++]);
    fill_relative(r, &charts[0], &charts[1]);
    struct whole_file f;
    sim_open_file(r->job, &f, r->job->options.plot);
    const bool ok = chart_write(charts, charts[0].nseries > 1 ? 2 : 1, f.stream);
    sim_publish(r->job, &f, ok);
    for (int i = 0; i < charts[0].nseries; i++) {
        free(charts[0].series[i].points);
        free(charts[1].series[i].points);
    }
    free(charts[0].series);
    free(charts[1].series);
}
