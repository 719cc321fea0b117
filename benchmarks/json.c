/* SPDX-License-Identifier: MIT */
/* The format "coll_bench 1", for scripts and for --baseline. Keys may be added,
 * never renamed. */
#include <cjson/cJSON.h>

#include "programs/whole_file.h"
#include "report.h"

/* A number with so many decimals: cJSON alone would print all 17 digits. */
static bool add(cJSON *to, const char *key, double x, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, x);
    return cJSON_AddRawToObject(to, key, text) != NULL;
}

static bool add_overlap(cJSON *row, const struct bench_overlap *o)
{
    if (o->alone <= 0)
        return true;
    cJSON *const to = cJSON_AddObjectToObject(row, "overlap");
    return to && add(to, "alone_us", o->alone * 1e6, 4)
           && add(to, "compute_us", o->compute * 1e6, 4)
           && add(to, "both_us", o->both * 1e6, 4)
           && add(to, "hidden_percent", bench_hidden(o), 2);
}

static bool add_group(cJSON *row, long calls, const struct bench_group *g)
{
    if (g->together <= 0)
        return true;
    cJSON *const to = cJSON_AddObjectToObject(row, "group");
    return to && add(to, "calls", (double)calls, 0)
           && add(to, "together_us", g->together * 1e6, 4)
           && add(to, "alone_us", g->alone * 1e6, 4)
           && add(to, "ratio", g->together / g->alone, 4);
}

/* An object with a key for each mode. */
static bool add_modes(cJSON *row, const struct bench_mode *modes)
{
    if (!modes[0].name)
        return true;
    cJSON *const list = cJSON_AddObjectToObject(row, "determinism");
    bool ok = list != NULL;
    for (int i = 0; ok && i < BENCH_MODES && modes[i].name; i++) {
        cJSON *const to = cJSON_AddObjectToObject(list, modes[i].name);
        ok = to && add(to, "p50_us", modes[i].p50 * 1e6, 4)
             && add(to, "ratio", modes[i].p50 / modes[0].p50, 4)
             && cJSON_AddStringToObject(to, "algorithm", modes[i].algorithm);
    }
    return ok;
}

static bool add_result(cJSON *list, const struct bench *b,
                       const struct job *job, const struct bench_result *r)
{
    cJSON *const row = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, row))
        return false;
    bool ok =
        cJSON_AddStringToObject(row, "collective",
                                collective_name(r->collective))
        && add(row, "bytes", (double)r->bytes, 0)
        && add(row, "count", (double)r->count, 0)
        && cJSON_AddStringToObject(row, "dtype", bench_dtype(b, r->collective))
        && cJSON_AddStringToObject(row, "op", bench_op(b, r->collective))
        && (!collective_has_root(r->collective)
            || add(row, "root", (double)b->options.root, 0))
        && cJSON_AddStringToObject(row, "memory", b->options.memory)
        && cJSON_AddBoolToObject(row, "in_place", b->options.in_place)
        && cJSON_AddStringToObject(row, "algorithm", r->algorithm);
    cJSON *const time = ok ? cJSON_AddObjectToObject(row, "time_us") : NULL;
    return time && add(time, "min", r->min * 1e6, 4)
           && add(time, "p50", r->p50 * 1e6, 4)
           && add(time, "p99", r->p99 * 1e6, 4)
           && add(time, "max", r->max * 1e6, 4)
           && add(row, "algbw_GBps", bench_algbw(r), 6)
           && add(row, "busbw_GBps", bench_busbw(r, job->nranks), 6)
           && add(row, "predicted_us", r->predicted * 1e6, 4)
           && add(row, "limit_us", r->limit * 1e6, 4)
           && cJSON_AddStringToObject(row, "limit_by", r->limit_by)
           && add(row, "percent_of_limit", bench_percent(r), 2)
           && add(row, "cpu_s", r->cpu_seconds, 6)
           && add(row, "bytes_moved", r->moved, 0)
           && add(row, "wrong", (double)r->wrong, 0)
           && add(row, "iterations", (double)r->iterations, 0)
           && add_overlap(row, &r->overlap)
           && add_group(row, b->options.group, &r->group)
           && add_modes(row, r->modes);
}

static char *print(const struct bench *b, const struct job *job)
{
    cJSON *const root = cJSON_CreateObject();
    char *text = NULL;
    cJSON *list = NULL;
    if (cJSON_AddStringToObject(root, "format", "coll_bench 1")
        && add(root, "nranks", job->nranks, 0)
        && add(root, "nhosts", job->nhosts, 0)
        && cJSON_AddStringToObject(root, "machine", b->machine)
        && cJSON_AddBoolToObject(root, "cold", b->options.cold))
        list = cJSON_AddArrayToObject(root, "results");
    bool ok = list != NULL;
    for (int i = 0; ok && i < b->nresults; i++)
        ok = add_result(list, b, job, &b->results[i]);
    if (ok)
        text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

bool json_write(const struct bench *b, const struct job *job,
                struct report_error *error)
{
    struct whole_file file;
    if (!whole_file_begin(&file, b->options.json, error->text,
                          sizeof error->text))
        return false;
    char *const text = print(b, job);
    const bool ok = text && fprintf(file.stream, "%s\n", text) > 0;
    cJSON_free(text);
    return whole_file_end(&file, ok, error->text, sizeof error->text);
}
