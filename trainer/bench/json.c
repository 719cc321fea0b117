/* SPDX-License-Identifier: MIT */
/* The format "conv_bench 1", for scripts. Keys may be added, never renamed. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

#include "bench/peak.h"
#include "bench/results.h"
#include "kernels/conv_size.h"
#include "kernels/gemm.h"
#include "programs/whole_file.h"

/* A number with so many digits: cJSON alone would print all 17. JSON has no
 * word for what is no number. */
static bool add(cJSON *to, const char *key, double x, int digits)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*g", digits, x);
    return cJSON_AddRawToObject(to, key, isfinite(x) ? text : "null") != NULL;
}

static bool add_string(cJSON *to, const char *key, const char *text)
{
    return cJSON_AddStringToObject(to, key, text) != NULL;
}

static bool add_time(cJSON *row, const struct bench_result *r)
{
    if (!add(row, "gflops", bench_flops(r) * 1e-9, 6)
        || !add(row, "percent_of_peak", bench_percent(r), 6)
        || !add(row, "peak_gflops", r->peak * 1e-9, 6)
        || !add(row, "runs", (double)r->runs, 10))
        return false;
    cJSON *time = cJSON_AddObjectToObject(row, "time_ms");
    return time && add(time, "min", r->min * 1e3, 7)
           && add(time, "p50", r->p50 * 1e3, 7);
}

static bool add_shape(cJSON *row, const struct conv *c)
{
    cJSON *shape = cJSON_AddObjectToObject(row, "shape");
    return shape && add(shape, "n", c->n, 10) && add(shape, "c", c->c, 10)
           && add(shape, "h", c->h, 10) && add(shape, "w", c->w, 10)
           && add(shape, "k", c->k, 10) && add(shape, "groups", c->groups, 10)
           && add(shape, "kernel_h", c->kernel_h, 10)
           && add(shape, "kernel_w", c->kernel_w, 10)
           && add(shape, "stride", c->stride_h, 10)
           && add(shape, "pad", c->pad_h, 10)
           && add(shape, "dilation", c->dilation_h, 10)
           && cJSON_AddBoolToObject(shape, "plain", c->plain)
           && add_string(shape, "x_dtype", c->half_x ? "bf16" : "f32")
           && add_string(shape, "y_dtype", c->half_y ? "bf16" : "f32");
}

static bool add_result(cJSON *list, const struct bench_result *r)
{
    cJSON *row = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, row))
        return false;
    const bool ok = add_string(row, "layer", r->of->layer)
                    && add(row, "times", r->of->times, 10)
                    && add_string(row, "pass", pass_name(r->pass))
                    && add_string(row, "kernel", r->kernel)
                    && add_string(row, "isa", r->isa)
                    && add(row, "gflop", conv_flops(&r->of->conv) * 1e-9, 10)
                    && add_shape(row, &r->of->conv);
    if (!ok || r->cannot)
        return ok && add_string(row, "cannot", r->cannot);
    return (!r->way || add_string(row, "way", r->way))
           && (!r->runs || add_time(row, r))
           && add(row, "max_rel_error", r->error, 4)
           && add(row, "error_bound", r->bound, 4);
}

static bool add_sum(cJSON *list, const struct bench *b, enum conv_pass pass)
{
    const struct bench_sum s = bench_sum(b, pass);
    cJSON *row = cJSON_CreateObject();
    const double rate = s.seconds > 0 ? s.flops / s.seconds * 1e-9 : 0;
    return cJSON_AddItemToArray(list, row)
           && add_string(row, "pass", pass_name(pass))
           && add(row, "convolutions", s.convolutions, 10)
           && add(row, "missing", s.missing, 10)
           && add(row, "gflop", s.flops * 1e-9, 10)
           && add(row, "time_ms", s.seconds * 1e3, 7)
           && add(row, "gflops", rate, 6)
           && add(row, "percent_of_peak", s.percent, 6);
}

static bool add_left_out(cJSON *list, const struct net_conv *c,
                         enum conv_pass pass)
{
    cJSON *row = cJSON_CreateObject();
    return cJSON_AddItemToArray(list, row) && add_string(row, "layer", c->layer)
           && add(row, "times", c->times, 10)
           && add_string(row, "pass", pass_name(pass));
}

static bool add_lists(cJSON *root, const struct bench *b)
{
    const struct bench_options *o = b->options;
    cJSON *results = cJSON_AddArrayToObject(root, "results");
    bool ok = results != NULL;
    for (int i = 0; ok && i < b->nresults; i++)
        ok = add_result(results, &b->results[i]);
    cJSON *sums = ok ? cJSON_AddArrayToObject(root, "sums") : NULL;
    ok = sums != NULL;
    for (int p = 0; ok && !o->check && p < CONV_PASSES; p++)
        ok = !o->pass[p] || add_sum(sums, b, (enum conv_pass)p);
    cJSON *left = ok ? cJSON_AddArrayToObject(root, "left_out") : NULL;
    ok = left != NULL;
    for (int i = 0; ok && i < b->convs.count * CONV_PASSES; i++) {
        const struct net_conv *c = &b->convs.all[i / CONV_PASSES];
        const enum conv_pass p = (enum conv_pass)(i % CONV_PASSES);
        ok = !o->pass[p] || !bench_leaves_out(c, p) || add_left_out(left, c, p);
    }
    return ok;
}

static char *print(const struct bench *b)
{
    const struct bench_options *o = b->options;
    cJSON *root = cJSON_CreateObject();
    char *text = NULL;
    if (add_string(root, "format", "conv_bench 1")
        && add_string(root, "net", o->net)
        && add(root, "batch", (double)o->batch, 10)
        && add_string(root, "dtype", o->dtype)
        && add(root, "threads", (double)o->threads, 10)
        && cJSON_AddBoolToObject(root, "cold", o->cold)
        && add_string(root, "machine", b->machine)
        && add_string(root, "isa", o->isa)
        && add(root, "peak_gflops", peak_of_dtype(o, b->crew) * 1e-9, 6)
        && add_string(root, "openblas", gemm_core()) && add_lists(root, b))
        text = cJSON_Print(root);
    cJSON_Delete(root);
    return text;
}

int json_write(const struct bench *b, const char *path, char *error,
               size_t error_bytes)
{
    struct whole_file file;
    char *text = print(b);
    if (!text) {
        snprintf(error, error_bytes, "%s: no memory for the results", path);
        return -1;
    }
    bool good = whole_file_begin(&file, path, error, error_bytes);
    if (good) {
        fprintf(file.stream, "%s\n", text);
        good = whole_file_end(&file, true, error, error_bytes);
    }
    cJSON_free(text);
    return good ? 0 : -1;
}
