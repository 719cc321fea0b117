/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/peak.h"
#include "bench/results.h"
#include "kernels/conv_size.h"
#include "kernels/gemm.h"

enum { NARROWEST = 12 };

/* Of the column of names. */
static int name_width(const struct bench *b)
{
    size_t width = NARROWEST;
    for (int i = 0; i < b->convs.count; i++) {
        const size_t length = strlen(b->convs.all[i].layer);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_subject(const struct bench *b)
{
    const struct bench_options *o = b->options;
    const time_t now = time(NULL);
    struct tm tm;
    char date[32] = "";
    if (gmtime_r(&now, &tm))
        strftime(date, sizeof(date), ", %Y-%m-%d %H:%M UTC", &tm);
    printf("# conv_bench, libcoll %s%s\n", COLL_BUILD_VERSION, date);
    printf(
        "# %s, batch %ld, %s, %ld thread%s; %d convolutions of %d shapes%s\n",
        o->net, o->batch, o->dtype, o->threads, o->threads == 1 ? "" : "s",
        b->convs.convolutions, b->convs.count, o->cold ? "; cold caches" : "");
    printf("# %s\n", b->machine);
}

/* Shapes of which a tensor at least is bf16 in memory. */
static int count_halved(const struct bench *b)
{
    int count = 0;
    for (int i = 0; i < b->convs.count; i++)
        count += b->convs.all[i].conv.half_x || b->convs.all[i].conv.half_y;
    return count;
}

void table_head(const struct bench *b)
{
    const struct bench_options *o = b->options;
    print_subject(b);
    if (!o->check)
        printf("# peak: what multiply-adds in registers reach on %s, measured "
               "just now:\n"
               "#   %.1f GFLOP/s of %s with %s\n"
               "# GFLOP/s: 2 for each multiply-add of the definition, "
               "whatever the kernel does;\n"
               "#   of the median time (p50), with repacking of weights\n",
               o->threads == 1 ? "one core" : "all threads together",
               peak_of_dtype(o, b->crew) * 1e-9, o->dtype,
               o->bf16 ? conv_bf16_isa() : o->isa);
    if (o->bf16 && !conv_bf16_fast())
        printf("# %s has no instructions for bf16, so its products are made of "
               "floats, which is slow\n",
               o->isa);
    if (count_halved(b))
        printf("# of %d shapes x or y, or both, are bf16 in memory, as the net "
               "has them in training\n",
               count_halved(b));
    printf("# error: max |found - definition in double| / max |definition|, "
           "where the shape is\n"
           "#   large on fewer images, rows and columns; wrong above its "
           "bound\n");
    printf("#%-*s %5s %-11s %-8s %-6s %9s %10s %10s %9s %7s %8s %8s\n",
           name_width(b) - 1, "layer", "times", "pass", "kernel", "isa",
           "GFLOP", "min_ms", "p50_ms", "GFLOP/s", "peak/%", "error", "bound");
    fflush(stdout);
}

void table_row(const struct bench *b, const struct bench_result *r)
{
    printf("%-*s %5d %-11s %-8s %-6s %9.3f ", name_width(b), r->of->layer,
           r->of->times, pass_name(r->pass), r->kernel, r->isa,
           conv_flops(&r->of->conv) * 1e-9);
    if (r->cannot) {
        printf("cannot: %s\n", r->cannot);
    } else {
        if (r->runs)
            printf("%10.3f %10.3f %9.2f %7.1f", r->min * 1e3, r->p50 * 1e3,
                   bench_flops(r) * 1e-9, bench_percent(r));
        else
            printf("%10s %10s %9s %7s", "-", "-", "-", "-");
        printf(" %8.1e %8.1e%s%s%s\n", r->error, r->bound, r->way ? " " : "",
               r->way ? r->way : "", bench_wrong(r) ? " WRONG" : "");
    }
    fflush(stdout);
}

static void print_sum(const struct bench *b, enum conv_pass pass)
{
    const struct bench_sum s = bench_sum(b, pass);
    printf("# %-11s %12d %10.3f %10.3f %9.2f %7.1f", pass_name(pass),
           s.convolutions, s.flops * 1e-9, s.seconds * 1e3,
           s.seconds > 0 ? s.flops / s.seconds * 1e-9 : 0, s.percent);
    if (s.missing)
        printf("  without %d that it cannot do", s.missing);
    printf("\n");
}

static void print_left_out(const struct bench *b)
{
    for (int i = 0; i < b->convs.count; i++)
        for (int p = 0; p < CONV_PASSES; p++)
            if (b->options->pass[p]
                && bench_leaves_out(&b->convs.all[i], (enum conv_pass)p))
                printf("# left out: %s of %s, as training does not need the "
                       "gradient of what it reads\n",
                       pass_name((enum conv_pass)p), b->convs.all[i].layer);
}

static bool has_gemm(const struct bench *b)
{
    for (int i = 0; i < b->nresults; i++)
        if (!strcmp(b->results[i].kernel, "gemm"))
            return true;
    return false;
}

void table_foot(const struct bench *b)
{
    const int wrong = bench_wrongs(b);
    if (!b->options->check) {
        printf("# the whole net, times x p50:\n");
        printf("# %-11s %12s %10s %10s %9s %7s\n", "pass", "convolutions",
               "GFLOP", "ms", "GFLOP/s", "peak/%");
        for (int p = 0; p < CONV_PASSES; p++)
            if (b->options->pass[p])
                print_sum(b, (enum conv_pass)p);
    }
    print_left_out(b);
    if (has_gemm(b))
        printf("# gemm is OpenBLAS with its kernels for %s, which --isa does "
               "not change\n",
               gemm_core());
    printf("# wrong: %d of %d\n", wrong, b->nresults);
    fflush(stdout);
}

/* What would compute this, or a dash. */
static const char *method_for(const struct bench *b, const struct net_conv *c,
                              enum conv_pass pass)
{
    const struct conv_method *m =
        b->options->method ? b->options->method : conv_best(&c->conv, pass);
    return !b->options->pass[pass] || bench_leaves_out(c, pass)
                   || m->cannot(&c->conv, pass)
               ? "-"
               : m->name;
}

void table_shapes(const struct bench *b)
{
    print_subject(b);
    printf("#%-*s %5s %14s %7s %6s %6s %4s %6s %8s %-7s %9s %-8s %-8s "
           "%-11s\n",
           name_width(b) - 1, "layer", "times", "input", "outputs", "window",
           "stride", "pad", "groups", "dilation", "layout", "GFLOP", "fwd",
           "bwd_data", "bwd_weights");
    for (int i = 0; i < b->convs.count; i++) {
        const struct net_conv *n = &b->convs.all[i];
        const struct conv *c = &n->conv;
        char input[48], window[32];
        snprintf(input, sizeof(input), "%dx%dx%d", c->c, c->h, c->w);
        snprintf(window, sizeof(window), "%dx%d", c->kernel_h, c->kernel_w);
        printf("%-*s %5d %14s %7d %6s %6d %4d %6d %8d %-7s %9.3f %-8s %-8s "
               "%-11s\n",
               name_width(b), n->layer, n->times, input, c->k, window,
               c->stride_h, c->pad_h, c->groups, c->dilation_h,
               c->plain ? "plain" : "blocked", conv_flops(c) * 1e-9,
               method_for(b, n, CONV_FORWARD),
               method_for(b, n, CONV_BACKWARD_DATA),
               method_for(b, n, CONV_BACKWARD_WEIGHTS));
    }
    print_left_out(b);
    fflush(stdout);
}
