/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include <time.h>

#include "report.h"

double bench_algbw(const struct bench_result *r)
{
    return r->p50 > 0 ? (double)r->bytes / r->p50 / 1e9 : 0;
}

double bench_busbw(const struct bench_result *r, int nranks)
{
    return bench_algbw(r) * collective_busbw(r->collective, nranks);
}

double bench_percent(const struct bench_result *r)
{
    return r->p50 > 0 ? 100 * r->limit / r->p50 : 0;
}

double bench_hidden(const struct bench_overlap *o)
{
    return 100 * (o->alone + o->compute - o->both) / fmin(o->alone, o->compute);
}

const char *bench_dtype(const struct bench *b, enum collective c)
{
    return collective_has_vectors(c) ? coll_dtype_name(b->options.dtype)
                                     : "none";
}

const char *bench_op(const struct bench *b, enum collective c)
{
    return collective_reduces(c) ? coll_op_name(b->options.op) : "none";
}

/* A setting by its name without COLL_. */
static const char *setting(const char *name)
{
    coll_setting_info info;
    for (int i = 0; coll_setting_get(i, &info); i++) {
        const char *const n = info.name;
        const size_t skip = strncmp(n, "COLL_", 5) == 0 ? 5 : 0;
        if (strcmp(n + skip, name) == 0)
            return info.value;
    }
    return "?";
}

static void print_transports(void)
{
    const char *name;
    printf("# transport %s, built in:", setting("TRANSPORT"));
    for (int i = 0; (name = coll_transport_get(i)); i++)
        printf(" %s", name);
    printf("\n");
}

static void print_limits(const struct bench_limits *l)
{
    if (!l->node && l->link_bytes_per_second <= 0) {
        printf("# limit_us: unknown, as the ranks of a host cannot open each "
               "other's memory\n");
        return;
    }
    printf("# limit_us: a cache line exchanged%s",
           l->yields ? ", yielding the CPU" : "");
    if (l->memory)
        printf(", and memory traffic without waiting");
    if (l->link_bytes_per_second > 0)
        printf(", one TCP stream between hosts (%.3f GB/s)",
               l->link_bytes_per_second / 1e9);
    printf("\n");
    if (l->node && !l->memory)
        printf("#   no memory is free to measure the traffic of such "
               "vectors\n");
}

void table_head(const struct bench *b, const struct job *job)
{
    const struct bench_options *const o = &b->options;
    const int v = coll_version();
    const time_t now = time(NULL);
    struct tm tm;
    char date[32] = "";
    if (gmtime_r(&now, &tm))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
    printf("# coll_bench, libcoll %d.%d.%d, %s\n", v / 10000, v / 100 % 100,
           v % 100, date);
    printf("# %d rank%s on %d host%s; rank 0: %s\n", job->nranks,
           job->nranks == 1 ? "" : "s", job->nhosts,
           job->nhosts == 1 ? "" : "s", b->machine);
    print_transports();
    printf("# memory %s, %s, %s\n", o->memory,
           o->in_place ? "in place" : "out of place",
           o->cold ? "cold (caches flushed before every iteration)" : "warm");
    printf("# time: input rewritten before and output read after every "
           "iteration, neither\n"
           "#   timed; ranks start together; an iteration takes the time of "
           "its slowest rank\n");
    print_limits(&b->limits);
    printf("#%11s %11s %6s %4s %-24s %10s %10s %10s %10s %8s %8s %10s %10s "
           "%7s %7s%s\n",
           "bytes", "count", "dtype", "op", "algorithm", "min_us", "p50_us",
           "p99_us", "max_us", "algbw", "busbw", "pred_us", "limit_us",
           "limit/%", "wrong", o->baseline ? "  before" : "");
    printf("#%91s%41s\n", "", "GB/s     GB/s");
    fflush(stdout);
}

void table_collective(const struct bench *b, enum collective c)
{
    printf("# %s", collective_name(c));
    if (collective_has_root(c))
        printf(", root %ld", b->options.root);
    printf("\n");
    fflush(stdout);
}

/* A dash where nothing is known. */
static void print_known(double x, int width, int decimals)
{
    if (x > 0)
        printf(" %*.*f", width, decimals, x);
    else
        printf(" %*s", width, "-");
}

static void print_modes(const struct bench_mode *modes)
{
    printf("#%11s determinism:", "");
    for (int i = 0; i < BENCH_MODES && modes[i].name; i++)
        printf("%s %s %.3f us (%.2f, %s)", i ? "," : "", modes[i].name,
               modes[i].p50 * 1e6, modes[i].p50 / modes[0].p50,
               modes[i].algorithm);
    printf("\n");
}

void table_row(const struct bench *b, const struct job *job,
               const struct bench_result *r)
{
    printf("%12zu %11zu %6s %4s %-24s %10.3f %10.3f %10.3f %10.3f %8.3f %8.3f",
           r->bytes, r->count, bench_dtype(b, r->collective),
           bench_op(b, r->collective), r->algorithm, r->min * 1e6, r->p50 * 1e6,
           r->p99 * 1e6, r->max * 1e6, bench_algbw(r),
           bench_busbw(r, job->nranks));
    print_known(r->predicted * 1e6, 10, 3);
    print_known(r->limit * 1e6, 10, 3);
    print_known(bench_percent(r), 7, 1);
    printf(" %7llu", r->wrong);
    if (r->before > 0)
        printf(" %6.2fx", r->p50 / r->before);
    else if (b->options.baseline)
        printf("       -");
    printf("\n");
    if (r->overlap.alone > 0)
        printf("#%11s overlap: %.1f us alone, %.1f us of arithmetic, %.1f us "
               "both: %.1f %% hidden\n",
               "", r->overlap.alone * 1e6, r->overlap.compute * 1e6,
               r->overlap.both * 1e6, bench_hidden(&r->overlap));
    if (r->group.together > 0)
        printf("#%11s group of %ld: %.3f us, one after another %.3f us: %.2f "
               "times that\n",
               "", b->options.group, r->group.together * 1e6,
               r->group.alone * 1e6, r->group.together / r->group.alone);
    if (r->modes[0].name)
        print_modes(r->modes);
    fflush(stdout);
}

static void print_comparison(const struct bench *b)
{
    double sum = 0, worst = 0;
    size_t at = 0;
    int n = 0;
    for (int i = 0; i < b->nresults; i++) {
        const struct bench_result *const r = &b->results[i];
        if (r->before <= 0)
            continue;
        const double ratio = r->p50 / r->before;
        sum += log(ratio);
        n++;
        if (ratio > worst) {
            worst = ratio;
            at = r->bytes;
        }
    }
    if (n == 0)
        printf("# against %s: no row in common\n", b->options.baseline);
    else
        printf("# against %s: p50 is %.2f times what it was, geometric mean "
               "of %d row%s; at worst %.2f times, at %zu bytes\n",
               b->options.baseline, exp(sum / n), n, n == 1 ? "" : "s", worst,
               at);
}

void table_foot(const struct bench *b)
{
    unsigned long long wrong = 0;
    for (int i = 0; i < b->nresults; i++)
        wrong += b->results[i].wrong;
    if (b->options.baseline)
        print_comparison(b);
    printf("# wrong elements: %llu\n", wrong);
    fflush(stdout);
}
