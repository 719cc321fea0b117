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
    return bench_algbw(r) * 2 * (nranks - 1) / nranks;
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
    printf("# limit_us: the largest of memory traffic (read S, write S on "
           "every rank)");
    if (l->line_seconds > 0)
        printf(", a cache line from core to core (%.3f us)",
               l->line_seconds * 1e6);
    if (l->link_bytes_per_second > 0)
        printf(", one TCP stream between hosts (%.3f GB/s)",
               l->link_bytes_per_second / 1e9);
    printf("\n");
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
    printf("# coll_bench allreduce, libcoll %d.%d.%d, %s\n", v / 10000,
           v / 100 % 100, v % 100, date);
    printf("# %d rank%s on %d host%s; rank 0: %s\n", job->nranks,
           job->nranks == 1 ? "" : "s", job->nhosts,
           job->nhosts == 1 ? "" : "s", b->machine);
    print_transports();
    printf("# memory malloc, %s, %s\n",
           o->in_place ? "in place" : "out of place",
           o->cold ? "cold (caches flushed before every iteration)" : "warm");
    printf("# time: input rewritten before and output read after every "
           "iteration, neither\n"
           "#   timed; ranks start together; an iteration takes the time of "
           "its slowest rank\n");
    print_limits(&b->limits);
    printf("#%11s %11s %6s %4s %-24s %10s %10s %10s %10s %8s %8s %10s %10s "
           "%7s%s\n",
           "bytes", "count", "dtype", "op", "algorithm", "min_us", "p50_us",
           "p99_us", "max_us", "algbw", "busbw", "pred_us", "limit_us", "wrong",
           o->baseline ? "  before" : "");
    printf("#%91s%41s\n", "", "GB/s     GB/s");
    fflush(stdout);
}

void table_row(const struct bench *b, const struct job *job,
               const struct bench_result *r)
{
    const struct bench_options *const o = &b->options;
    printf("%12zu %11zu %6s %4s %-24s %10.3f %10.3f %10.3f %10.3f %8.3f %8.3f "
           "%10.3f %10.3f %7llu",
           r->bytes, r->count, coll_dtype_name(o->dtype), coll_op_name(o->op),
           r->algorithm, r->min * 1e6, r->p50 * 1e6, r->p99 * 1e6, r->max * 1e6,
           bench_algbw(r), bench_busbw(r, job->nranks), r->predicted * 1e6,
           r->limit * 1e6, r->wrong);
    if (r->before > 0)
        printf(" %6.2fx", r->p50 / r->before);
    else if (o->baseline)
        printf("       -");
    printf("\n");
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
