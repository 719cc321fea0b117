/* SPDX-License-Identifier: MIT */
/* The format "coll_bench 1", for scripts and for --baseline. Keys may be added,
 * never renamed. */
#include <cjson/cJSON.h>

#include "report.h"

/* A number with so many decimals: cJSON alone would print all 17 digits. */
static bool add(cJSON *to, const char *key, double x, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, x);
    return cJSON_AddRawToObject(to, key, text) != NULL;
}

static bool add_result(cJSON *list, const struct bench *b,
                       const struct job *job, const struct bench_result *r)
{
    const struct bench_options *const o = &b->options;
    cJSON *const row = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, row))
        return false;
    bool ok =
        cJSON_AddStringToObject(row, "collective", "allreduce")
        && add(row, "bytes", (double)r->bytes, 0)
        && add(row, "count", (double)r->count, 0)
        && cJSON_AddStringToObject(row, "dtype", coll_dtype_name(o->dtype))
        && cJSON_AddStringToObject(row, "op", coll_op_name(o->op))
        && cJSON_AddStringToObject(row, "memory", "malloc")
        && cJSON_AddBoolToObject(row, "in_place", o->in_place)
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
           && add(row, "wrong", (double)r->wrong, 0)
           && add(row, "iterations", (double)r->iterations, 0);
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
    char *const temporary = files_temporary(b->options.json);
    char *const text = print(b, job);
    FILE *const file = temporary && text ? fopen(temporary, "w") : NULL;
    bool ok = file != NULL;
    if (ok) {
        ok = fprintf(file, "%s\n", text) > 0;
        ok = fclose(file) == 0 && ok;
    }
    cJSON_free(text);
    return files_publish(temporary, b->options.json, ok, error);
}
