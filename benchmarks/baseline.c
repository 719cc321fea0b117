/* SPDX-License-Identifier: MIT */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct baseline {
    cJSON *root;
    const cJSON *results;
    int nranks;
};

static char *read_all(const char *path, struct report_error *error)
{
    FILE *const file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!file || getdelim(&text, &size, '\0', file) < 0) {
        snprintf(error->text, sizeof error->text,
                 "--baseline %s: cannot be read: %s", path,
                 errno ? strerror(errno) : "it is empty");
        free(text);
        text = NULL;
    }
    if (file)
        fclose(file);
    return text;
}

/* Line and column, from 1, of a place in the text. */
static void say_where(const char *path, const char *text, const char *at,
                      struct report_error *error)
{
    int line = 1, column = 1;
    for (; at && text < at && *text; text++) {
        column = *text == '\n' ? 1 : column + 1;
        line += *text == '\n';
    }
    snprintf(error->text, sizeof error->text,
             "--baseline %s:%d:%d: this is not JSON; valid is a file that "
             "coll_bench --json wrote",
             path, line, column);
}

struct baseline *baseline_read(const char *path, struct report_error *error)
{
    errno = 0;
    char *const text = read_all(path, error);
    if (!text)
        return NULL;
    const char *end = NULL;
    struct baseline *const base = job_alloc(sizeof *base);
    base->root = cJSON_ParseWithOpts(text, &end, 1);
    const cJSON *const format =
        cJSON_GetObjectItemCaseSensitive(base->root, "format");
    base->results = cJSON_GetObjectItemCaseSensitive(base->root, "results");
    const cJSON *const nranks =
        cJSON_GetObjectItemCaseSensitive(base->root, "nranks");
    base->nranks = cJSON_IsNumber(nranks) ? nranks->valueint : 0;
    if (!base->root) {
        say_where(path, text, end, error);
    } else if (!cJSON_IsString(format)
               || strcmp(format->valuestring, "coll_bench 1") != 0
               || !cJSON_IsArray(base->results)) {
        snprintf(error->text, sizeof error->text,
                 "--baseline %s: found no \"format\": \"coll_bench 1\" with "
                 "results; valid is a file that coll_bench --json wrote",
                 path);
    } else {
        free(text);
        return base;
    }
    free(text);
    baseline_free(base);
    return NULL;
}

void baseline_free(struct baseline *base)
{
    if (!base)
        return;
    cJSON_Delete(base->root);
    free(base);
}

int baseline_nranks(const struct baseline *base)
{
    return base->nranks;
}

static bool is_text(const cJSON *row, const char *key, const char *value)
{
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(row, key);
    return cJSON_IsString(item) && strcmp(item->valuestring, value) == 0;
}

static bool same(const cJSON *row, const struct bench *b,
                 const struct bench_result *r)
{
    const cJSON *const bytes = cJSON_GetObjectItemCaseSensitive(row, "bytes");
    const cJSON *const in_place =
        cJSON_GetObjectItemCaseSensitive(row, "in_place");
    return cJSON_IsNumber(bytes) && bytes->valuedouble == (double)r->bytes
           && cJSON_IsTrue(in_place) == b->options.in_place
           && is_text(row, "collective", collective_name(r->collective))
           && is_text(row, "dtype", bench_dtype(b, r->collective))
           && is_text(row, "op", bench_op(b, r->collective))
           && is_text(row, "memory", b->options.memory);
}

static double p50_of(const cJSON *row)
{
    const cJSON *const time = cJSON_GetObjectItemCaseSensitive(row, "time_us");
    const cJSON *const p50 = cJSON_GetObjectItemCaseSensitive(time, "p50");
    return cJSON_IsNumber(p50) ? p50->valuedouble * 1e-6 : 0;
}

double baseline_p50(const struct baseline *base, const struct bench *b,
                    const struct bench_result *r)
{
    /* With an algorithm forced the same one counts, else whichever the library
     * took. */
    const bool forced = b->options.algorithms != NULL;
    const cJSON *row;
    cJSON_ArrayForEach(row, base->results)
    {
        if (same(row, b, r)
            && (!forced || is_text(row, "algorithm", r->algorithm)))
            return p50_of(row);
    }
    return 0;
}
