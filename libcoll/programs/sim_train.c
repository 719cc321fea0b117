/* SPDX-License-Identifier: MIT */
/* coll_sim train: what communication makes of a training step.
 *
 * Weak scaling: every rank computes its own batch in --step-ms, the forward
 * pass in a third of that and the backward pass in two thirds. During the
 * backward pass gradients become ready uniformly, in buckets, which are summed
 * one after another; what ends after the backward pass is exposed. Elastic
 * averaging instead exchanges all weights at once at every tau-th step, beside
 * the computing of one step at most. All times of the network are simulated.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "programs/sim.h"
#include "programs/chart.h"

/* Layer by layer; AlexNet without groups, GoogLeNet without its side heads. */
static const struct {
    const char *name;
    double parameters;
} nets[] = {
    {"alexnet",   62378344 },
    {"vgg16",     138357544},
    {"vgg19",     143667240},
    {"resnet50",  25557032 },
    {"googlenet", 6998552  },
    {"lenet",     431080   },
};
enum { NNETS = sizeof(nets) / sizeof(nets[0]) };

/* One point: so many ranks with such a period. Seconds. */
struct scaling {
    int nranks, tau;
    struct trial bucket;            /* a whole bucket, by what is chosen */
    double nbuckets, communication; /* of one exchange */
    double exposed, step;           /* on average */
};

struct training {
    struct sim_job *job;
    enum { SYNC, EASGD } strategy;
    bool overlaps;
    double compute;
    size_t bytes, bucket;
    int *taus, ntaus;
    struct scaling *rows;
    int nrows;
};

static double efficiency(const struct training *t, const struct scaling *s)
{
    return t->compute / s->step;
}

static void read_training(struct training *t, struct sim_job *job)
{
    const struct sim_options *o = &job->options;
    const char *strategy = o->strategy ? o->strategy : "sync";
    *t = (struct training){
        .job = job,
        .strategy = strcmp(strategy, "sync") ? EASGD : SYNC,
        .overlaps = !strcmp(o->overlap, "on"),
        .compute = o->step_ms * 1e-3,
        .bytes = o->gradient_bytes,
    };
    for (int i = 0; i < NNETS && !t->bytes; i++)
        if (o->net && !strcmp(o->net, nets[i].name))
            t->bytes = (size_t)(4 * nets[i].parameters);
    if (!t->bytes)
        options_die(job->program, "--net: missing, valid is --net NET, or "
                                  "--bytes BYTES of gradients");
    if (o->step_ms <= 0)
        options_die(job->program, "--step-ms: missing, valid is --step-ms MS, "
                                  "what one rank computes in a step");
    t->ntaus =
        sim_parse_numbers(job->program, "--tau", o->tau, 1 << 20, &t->taus);
    if (t->strategy == SYNC && t->taus[t->ntaus - 1] > 1)
        options_die(job->program,
                    "--tau: found %s, valid with the strategy "
                    "sync is 1",
                    o->tau);
    /* Weights are exchanged in one call. */
    t->bucket =
        t->strategy == EASGD || o->bucket > t->bytes ? t->bytes : o->bucket;
    t->rows = calloc((size_t)(job->nnranks * t->ntaus), sizeof(*t->rows));
    if (!t->rows)
        sim_fail("no memory for the results");
}

/* --- the network ------------------------------------------------------------
 */

static const struct algo *forced(const struct sim_job *job)
{
    const char *name = job->options.algo;
    if (!name || !strcmp(name, "all"))
        return NULL;
    const struct algo *algo = algo_find(ALLREDUCE, name);
    if (!algo || algo->way != BY_PLAN)
        options_die(job->program,
                    "--algo: found \"%s\", valid with train is one algorithm "
                    "for allreduce (coll_info --algorithms)",
                    name);
    return algo;
}

/* The faster of its orders. */
static struct trial run_forced(const struct sim_job *job, const struct world *w,
                               const struct algo *algo, size_t bytes)
{
    struct trial best = {.state = TRIAL_LARGE};
    for (int order = 0; order < NLINEUPS; order++) {
        struct trial t = {.world = w,
                          .algo = algo,
                          .order = (enum layout_order)order,
                          .bytes = bytes,
                          .segments = (int)job->options.segments};
        if (!choices_considers(w, algo, t.order))
            continue;
        trials_run(&t, 1, &job->limits);
        if (t.state == TRIAL_FAILED)
            return t;
        if (t.state == TRIAL_DONE
            && (best.state != TRIAL_DONE || t.seconds < best.seconds))
            best = t;
    }
    return best;
}

/* What a whole bucket and the last one take on a world. */
static void simulate_buckets(const struct training *t, const struct world *w,
                             struct trial *whole, double *last_seconds)
{
    const struct algo *algo = forced(t->job);
    const size_t last = t->bytes % t->bucket;
    const size_t sizes[2] = {last, t->bucket};
    struct trial runs[2] = {{.state = TRIAL_LARGE}};
    struct choices choices = {.world = w};
    coll_status status = COLL_OK;
    if (!algo)
        status = choices_open(&choices, w);
    if (!algo && status == COLL_OK)
        status =
            choices_run(&choices, ALLREDUCE, last ? sizes : sizes + 1,
                        last ? 2 : 1, &t->job->limits, last ? runs : runs + 1);
    for (int i = last ? 0 : 1; algo && i < 2; i++)
        runs[i] = run_forced(t->job, w, algo, sizes[i]);
    choices_close(&choices);
    if (status < 0)
        sim_fail(fail_sentence());
    for (int i = last ? 0 : 1; i < 2; i++)
        if (runs[i].state != TRIAL_DONE)
            sim_fail(runs[i].state == TRIAL_FAILED
                         ? runs[i].error
                         : "what the library would choose sends more messages "
                           "than --max-messages");
    *whole = runs[1];
    whole->world = NULL; /* which ends before */
    *last_seconds = last ? runs[0].seconds : 0;
}

/* --- the step ---------------------------------------------------------------
 */

static void compose_sync(const struct training *t, struct scaling *s,
                         double last_seconds)
{
    const double forward = t->compute / 3, backward = t->compute - forward;
    const double bytes = (double)t->bytes, bucket = (double)t->bucket;
    double end = 0;
    s->nbuckets = ceil(bytes / bucket);
    for (double b = 0; b < s->nbuckets; b++) {
        const double to = fmin((b + 1) * bucket, bytes);
        const double seconds =
            to - b * bucket < bucket ? last_seconds : s->bucket.seconds;
        const double ready =
            t->overlaps ? forward + backward * to / bytes : t->compute;
        end = fmax(end, ready) + seconds;
        s->communication += seconds;
    }
    s->exposed = fmax(end - t->compute, 0);
    s->step = t->compute + s->exposed;
}

static void compose_easgd(const struct training *t, struct scaling *s)
{
    const double hidden = t->overlaps ? t->compute : 0;
    s->nbuckets = 1;
    s->communication = s->bucket.seconds;
    s->exposed = fmax(s->communication - hidden, 0) / s->tau;
    s->step = t->compute + s->exposed;
}

static void scale(struct training *t, int i)
{
    struct world w;
    struct trial whole = {.seconds = 0, .algo = NULL};
    double last_seconds = 0;
    sim_open_world(t->job, i, &w);
    if (w.nranks > 1)
        simulate_buckets(t, &w, &whole, &last_seconds);
    world_free(&w);
    for (int k = 0; k < t->ntaus; k++) {
        struct scaling *s = &t->rows[t->nrows++];
        *s = (struct scaling){
            .nranks = t->job->nranks[i], .tau = t->taus[k], .bucket = whole};
        if (t->strategy == SYNC)
            compose_sync(t, s, last_seconds);
        else
            compose_easgd(t, s);
    }
}

/* --- results ----------------------------------------------------------------
 */

static const char *net_name(const struct training *t)
{
    const struct sim_options *o = &t->job->options;
    return o->net && !o->gradient_bytes ? o->net : "a net";
}

static const char *strategy_name(const struct training *t)
{
    return t->strategy == SYNC ? "sync" : "decentralized-easgd";
}

static const char *algorithm(const struct scaling *s)
{
    return s->bucket.algo ? s->bucket.algo->name : "none";
}

static const char *order(const struct scaling *s)
{
    return s->bucket.algo ? layout_order_names[s->bucket.order] : "given";
}

static double images(const struct training *t, const struct scaling *s)
{
    return (double)t->job->options.batch * s->nranks / s->step;
}

static void describe(const struct training *t, char *text, size_t bytes)
{
    char what[96];
    if (t->strategy == SYNC)
        snprintf(what, sizeof(what),
                 "%.1f MB of gradients in buckets of %.1f MB",
                 (double)t->bytes * 1e-6, (double)t->bucket * 1e-6);
    else
        snprintf(what, sizeof(what), "%.1f MB of weights at each tau-th step",
                 (double)t->bytes * 1e-6);
    snprintf(text, bytes,
             "%s, %s, %g ms of computing a step, overlap %s, on %s",
             strategy_name(t), what, t->compute * 1e3,
             t->overlaps ? "on" : "off", t->job->options.cluster);
}

static void print_rows(const struct training *t)
{
    char text[512];
    const bool batch = t->job->options.batch > 0;
    describe(t, text, sizeof(text));
    printf("training of %s, simulated: %s\n\n", net_name(t), text);
    printf("%7s %5s  %-24s %-12s %12s %12s %12s %10s %10s %6s%s\n", "ranks",
           "tau", "algorithm", "rank order", "exchange ms", "exposed ms",
           "step ms", "speed-up", "efficiency", "comm",
           batch ? "     images/s" : "");
    for (int i = 0; i < t->nrows; i++) {
        const struct scaling *s = &t->rows[i];
        printf("%7d %5d  %-24s %-12s %12.3f %12.3f %12.3f %10.2f %9.2f%% "
               "%5.1f%%",
               s->nranks, s->tau, algorithm(s), order(s),
               s->communication * 1e3, s->exposed * 1e3, s->step * 1e3,
               s->nranks * efficiency(t, s), 100 * efficiency(t, s),
               100 * s->exposed / s->step);
        if (batch)
            printf(" %12.1f", images(t, s));
        printf("\n");
    }
}

static cJSON *json_row(const struct training *t, const struct scaling *s)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "nranks", s->nranks);
    cJSON_AddNumberToObject(row, "tau", s->tau);
    cJSON_AddStringToObject(row, "algorithm", algorithm(s));
    cJSON_AddStringToObject(row, "rank_order", order(s));
    cJSON_AddNumberToObject(row, "segments", s->bucket.segments);
    cJSON_AddNumberToObject(row, "buckets", s->nbuckets);
    cJSON_AddNumberToObject(row, "bucket_us", s->bucket.seconds * 1e6);
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
    cJSON_AddStringToObject(root, "strategy", strategy_name(t));
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
        fprintf(f.stream,
                "%d,%d,%s,%s,%d,%.0f,%.6f,%.6f,%.6f,%.6f,%.6f,%.8f,"
                "%.8f\n",
                s->nranks, s->tau, algorithm(s), order(s), s->bucket.segments,
                s->nbuckets, s->bucket.seconds * 1e6, s->communication * 1e3,
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
    if (t->strategy == SYNC)
        snprintf(share->name, sizeof(share->name), "%s, %s", net_name(t),
                 strategy_name(t));
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

void sim_train(struct sim_job *job)
{
    struct training t;
    read_training(&t, job);
    forced(job);
    for (int i = 0; i < job->nnranks; i++)
        scale(&t, i);
    print_rows(&t);
    if (job->options.json)
        write_json(&t);
    if (job->options.csv)
        write_csv(&t);
    if (job->options.plot)
        write_plot(&t);
    free(t.rows);
    free(t.taus);
}
