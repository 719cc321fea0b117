/* SPDX-License-Identifier: MIT */
/* conv_bench: how fast the convolutions of a net are, and how fast and how
 * right they could be. Manual: conv_bench.1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "clock.h"
#include "bench/error.h"
#include "bench/operands.h"
#include "bench/peak.h"
#include "bench/results.h"
#include "kernels/gemm.h"
#include "net_option.h"
#include "programs/machine.h"

enum { FEWEST_RUNS = 3, MOST_RUNS = 1000 };
enum { COLD_FLOATS = 1 << 23 }; /* 32 MB */

static struct bench bench;

__attribute__((noreturn)) static void no_memory(const struct bench_result *r)
{
    fflush(stdout);
    fprintf(stderr, "conv_bench: no memory for %s of %s with %d images\n",
            pass_name(r->pass), r->of->layer, r->of->conv.n);
    exit(1);
}

static void read_convs(void)
{
    const struct bench_options *o = bench.options;
    char error[512];
    char *text = net_option(&conv_bench_program, o->net);
    const int failed =
        convs_read(&bench.convs, text, (int)o->batch, error, sizeof(error));
    free(text);
    if (failed)
        options_die(&conv_bench_program, "--net %s with --batch %ld: %s",
                    o->net, o->batch, error);
    if (!bench.convs.count)
        options_die(&conv_bench_program,
                    "--net: found %s without a convolution, valid is a net "
                    "with a line such as conv 20 5x5",
                    o->net);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Other numbers come into the caches in place of the operands. */
static void cool(void)
{
    for (size_t i = 0; i < bench.other.count; i++)
        bench.other.x[i] += 1;
}

/* The operands stay the same, and but for --cold in the caches as far as those
 * reach. The first run does not count. */
static void measure(struct bench_result *r, const struct conv_method *m)
{
    const struct bench_options *o = bench.options;
    const struct conv *c = &r->of->conv;
    static double seconds[MOST_RUNS];
    struct operands operands;
    if (operands_create(&operands, c, r->of->bias, m, r->pass, bench.crew))
        no_memory(r);
    operands_run(&operands, c, m, r->pass);
    const long fewest = o->iterations ? o->iterations : FEWEST_RUNS;
    const double end = clock_now() + (o->iterations ? 0 : o->seconds);
    for (double now = 0;
         r->runs < MOST_RUNS && (r->runs < fewest || now < end);) {
        cool();
        const double begun = clock_now();
        operands_run(&operands, c, m, r->pass);
        now = clock_now();
        seconds[r->runs++] = now - begun;
    }
    operands_free(&operands);
    qsort(seconds, (size_t)r->runs, sizeof(seconds[0]), by_size);
    r->min = seconds[0];
    r->p50 = (seconds[(r->runs - 1) / 2] + seconds[r->runs / 2]) / 2;
}

static void find(struct bench_result *r)
{
    const struct bench_options *o = bench.options;
    const struct conv *c = &r->of->conv;
    const struct conv_method *m = o->method ? o->method : conv_best(c, r->pass);
    r->kernel = m->name;
    r->isa = m == &conv_gemm   ? bench.gemm_isa
             : m == &conv_bf16 ? conv_bf16_isa()
                               : o->isa;
    r->cannot = m->cannot(c, r->pass);
    if (r->cannot)
        return;
    r->way = m->way ? m->way(c, r->pass) : NULL;
    r->bound = error_bound(c, m, r->pass);
    r->error = error_of(c, r->of->bias, m, r->pass, bench.crew);
    if (r->error < 0)
        no_memory(r);
    if (o->check)
        return;
    r->peak = peak_flops(r->isa, m == &conv_bf16, o, bench.crew);
    measure(r, m);
}

static void find_all(void)
{
    for (int i = 0; i < bench.convs.count * CONV_PASSES; i++) {
        const struct net_conv *c = &bench.convs.all[i / CONV_PASSES];
        const enum conv_pass pass = (enum conv_pass)(i % CONV_PASSES);
        if (!bench.options->pass[pass] || bench_leaves_out(c, pass))
            continue;
        struct bench_result *r = &bench.results[bench.nresults];
        *r = (struct bench_result){.of = c, .pass = pass};
        find(r);
        bench.nresults++;
        table_row(&bench, r);
    }
}

/* Bound to cores of their own, as the trainer's are. */
static void start_threads(int n)
{
    int *cpus = malloc((size_t)n * sizeof(*cpus));
    const bool bound = cpus && n > 1 && !coll_comm_place_threads(NULL, n, cpus);
    if (bound)
        crew_bind(cpus[0]);
    bench.crew = crew_create(n, bound ? cpus : NULL);
    free(cpus);
    if (bench.crew)
        return;
    fprintf(stderr,
            "conv_bench: no memory for %d threads, or the system gives no "
            "more\n",
            n);
    exit(1);
}

static void prepare(void)
{
    const struct bench_options *o = bench.options;
    const struct option_file files[] = {
        {"--json", o->json, FILE_WRITTEN},
        {"--plot", o->plot, FILE_WRITTEN},
        {"--net",  o->net,  FILE_READ   },
    };
    options_check_files(&conv_bench_program, files, 3);
    machine_describe(bench.machine, sizeof(bench.machine));
    bench.gemm_isa = gemm_isa() ? gemm_isa() : "unknown";
    conv_use(o->isa);
    bench.results =
        calloc((size_t)bench.convs.count * CONV_PASSES, sizeof(*bench.results));
    if (!bench.results || (o->cold && arena_alloc(&bench.other, COLD_FLOATS)))
        abort();
    start_threads((int)o->threads);
}

static int failed(const char *what)
{
    fprintf(stderr, "conv_bench: %s\n", what);
    return 1;
}

static int tell(void)
{
    const struct bench_options *o = bench.options;
    char error[512];
    int status = bench_wrongs(&bench) > 0;
    table_foot(&bench);
    if (o->json && json_write(&bench, o->json, error, sizeof(error)))
        status = failed(error);
    if (o->plot && plot_bars(&bench, o->plot, error, sizeof(error)))
        status = failed(error);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    bench.options = bench_parse(argc, argv);
    gemm_alone(); /* as in a net; reading one may measure */
    read_convs();
    prepare();
    if (bench.options->list) {
        table_shapes(&bench);
    } else {
        table_head(&bench);
        find_all();
        status = tell();
    }
    if (fflush(stdout) || ferror(stdout))
        status = failed("cannot write to standard output");
    arena_free(&bench.other);
    crew_free(bench.crew);
    free(bench.results);
    free(bench.convs.all);
    return status;
}
