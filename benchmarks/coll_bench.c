/* SPDX-License-Identifier: MIT */
/* Measures collectives on the ranks of a job: see coll_bench.1 for options and
 * columns, README.md for how to measure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "job.h"
#include "programs/machine.h"
#include "programs/options.h"
#include "report.h"
#include "sweep.h"
#include "words.h"

static struct bench bench = {
    .options =
        {
                  .min_bytes = 8,
                  .max_bytes = (size_t)16 << 20,
                  .factor = 4,
                  .warmup = 5,
                  .dtype = COLL_F32,
                  .op = COLL_SUM,
                  .memory = "heap",
                  },
};
static const char *dtype_word = "f32", *op_word = "sum";
static bool warm;
static char dtypes[WORDS_BYTES], ops[WORDS_BYTES];

/* clang-format off */
static const struct option_row rows[] = {
    {'b', "min-bytes", "MIN", OPTION_BYTES, &bench.options.min_bytes, 1, 1e15,
     NULL, "shortest vector; all parts of it, where ranks have one each "
     "(default 8)"},
    {'e', "max-bytes", "MAX", OPTION_BYTES, &bench.options.max_bytes, 1, 1e15,
     NULL, "longest vector (default 16M)"},
    {'f', "factor", "FACTOR", OPTION_NUMBER, &bench.options.factor, 1.1, 1e9,
     NULL, "from one length to the next (default 4)"},
    {'n', "iterations", "N", OPTION_INT, &bench.options.iterations, 1, 1e9,
     NULL, "iterations per length (default: about a quarter of a second, from "
     "10 to 5000)"},
    {'w', "warmup", "N", OPTION_INT, &bench.options.warmup, 0, 1e9, NULL,
     "iterations before those that count (default 5)"},
    {0, "pause", "NS", OPTION_NUMBER, &bench.options.pause, 0, 1e6, NULL,
     "sleep so many nanoseconds for each byte of the vector, if that is 0.1 "
     "to 5 ms (at most), before every iteration (default 0)"},
    {'d', "dtype", "DTYPE", OPTION_TEXT, &dtype_word, 0, 0, dtypes,
     "type of the elements (default f32)"},
    {'o', "op", "OP", OPTION_TEXT, &op_word, 0, 0, ops,
     "operator (default sum)"},
    {'r', "root", "RANK", OPTION_INT, &bench.options.root, 0, 1e9, NULL,
     "root rank, for collectives that have one (default 0)"},
    {'c', "check", NULL, OPTION_SWITCH, &bench.options.check_every, 0, 0, NULL,
     "check the result of every iteration (-c 1 is the same); without it, or "
     "with -c 0, of the first and the last"},
    {0, "algo", "NAME[,NAME]", OPTION_TEXT, &bench.options.algorithms, 0, 0,
     NULL, "force these algorithms, one after another, or all that fit; auto is "
     "what the library chooses"},
    {0, "memory", "KIND", OPTION_TEXT, &bench.options.memory, 0, 0,
     "heap|malloc",
     "where the vectors lie: coll_mem_alloc() (default) or elsewhere"},
    {0, "in-place", NULL, OPTION_FLAG, &bench.options.in_place, 0, 0, NULL,
     "result in place of the input"},
    {0, "cold", NULL, OPTION_FLAG, &bench.options.cold, 0, 0, NULL,
     "flush the caches before every iteration"},
    {0, "warm", NULL, OPTION_FLAG, &warm, 0, 0, NULL, "do not (default)"},
    {0, "overlap", NULL, OPTION_FLAG, &bench.options.overlap, 0, 0, NULL,
     "also say how much of the operation hides behind a computation of its "
     "length; see COLL_PROGRESS"},
    {0, "group", "N", OPTION_INT, &bench.options.group, 1, 4096, NULL,
     "also time N calls in one coll_group_start() and _end(), and the same one "
     "after another; wants N times the memory"},
    {0, "determinism", "MODE[,MODE]", OPTION_TEXT, &bench.options.determinism,
     0, 0, NULL, "also time these of COLL_DETERMINISM's modes beside off, in "
     "turn: run, layout, full, or all; of collectives that reduce"},
    {0, "json", "FILE", OPTION_TEXT, &bench.options.json, 0, 0, NULL,
     "write the results as JSON"},
    {0, "csv", "FILE", OPTION_TEXT, &bench.options.csv, 0, 0, NULL,
     "write the results as CSV"},
    {0, "plot", "FILE", OPTION_TEXT, &bench.options.plot, 0, 0, NULL,
     "draw time over length as a PNG image"},
    {0, "baseline", "FILE", OPTION_TEXT, &bench.options.baseline, 0, 0, NULL,
     "an earlier --json file: adds a column with the ratio of the p50 to the "
     "one there"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_bench",
    .usage = "coll_bench [COLLECTIVE|all] [options]\n"
             "collrun -n RANKS coll_bench [COLLECTIVE|all] [options]",
    .summary = "Measures collectives, checks results, and says what the "
               "machine would allow.",
    .options = rows,
    .noptions = sizeof rows / sizeof rows[0],
    .epilogue = "COLLECTIVE: allreduce (default), reduce, broadcast, "
                "reduce_scatter, allgather,\ngather, scatter, alltoall, the "
                "last five also with _v, sendrecv, pingpong,\nbarrier. Sizes "
                "take K, M, G for powers of 1024. Every rank gives the "
                "same\noptions.",
};

static void list_choices(void)
{
    const char *word;
    words_dtypes(dtypes);
    for (int i = 0; (word = coll_op_name((coll_op)i)); i++)
        words_add(ops, word);
}

static void parse(int argc, char **argv)
{
    struct bench_options *const o = &bench.options;
    int noperands;
    list_choices();
    options_parse(&program, argc, argv, &noperands, false);
    words_collective(&program, o, noperands, argv + 1);
    o->dtype = words_dtype(dtype_word);
    coll_op_find(op_word, &o->op);
    words_algorithms(&program, o);
    words_modes(&program, o);
    if (warm && o->cold)
        options_die(&program, "found both --cold and --warm, valid is one");
    if (o->min_bytes > o->max_bytes)
        options_die(&program, "-b: found %zu, which is more than -e %zu",
                    o->min_bytes, o->max_bytes);
    if (o->op >= COLL_BAND && o->dtype >= COLL_F16)
        options_die(&program,
                    "-o: found \"%s\" on %s, valid are sum, prod, "
                    "min, max, avg for floating-point types",
                    op_word, dtype_word);
}

static bool write_files(const struct job *job)
{
    static bool (*const writers[])(const struct bench *, const struct job *,
                                   struct report_error *) = {
        json_write, csv_write, plot_write};
    const char *const paths[] = {bench.options.json, bench.options.csv,
                                 bench.options.plot};
    bool ok = true;
    for (int i = 0; i < 3; i++) {
        struct report_error error;
        if (paths[i] && !writers[i](&bench, job, &error)) {
            fprintf(stderr, "coll_bench: %s\n", error.text);
            ok = false;
        }
    }
    return ok;
}

/* Rank 0 alone reads and writes files. */
static struct baseline *prepare_files(const struct job *job)
{
    const struct bench_options *const o = &bench.options;
    struct baseline *base = NULL;
    struct report_error error;
    if (job->rank == 0 && o->baseline
        && !(base = baseline_read(o->baseline, &error)))
        job_refuse(2, "%s", error.text);
    return base;
}

static bool flush_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    fputs("coll_bench: cannot write to standard output\n", stderr);
    return false;
}

static unsigned long long all_wrong(void)
{
    unsigned long long wrong = 0;
    for (int i = 0; i < bench.nresults; i++)
        wrong += bench.results[i].wrong;
    return wrong;
}

/* Only rank 0 writes files, and only where it runs can they be judged. */
static void check_files(void)
{
    const char *const rank =
        getenv("COLL_RANK") ? getenv("COLL_RANK") : getenv("RANK");
    if (rank && strcmp(rank, "0") != 0)
        return;
    const struct option_file files[] = {
        {"--json", bench.options.json, FILE_WRITTEN},
        {"--csv",  bench.options.csv,  FILE_WRITTEN},
        {"--plot", bench.options.plot, FILE_WRITTEN},
    };
    options_check_files(&program, files, 3);
}

/* How many others are to be measured. */
static int all_but(enum collective one)
{
    int n = 0;
    for (int c = 0; c < NCOLLECTIVES; c++)
        n += bench.options.collectives[c] && c != (int)one;
    return n;
}

int main(int argc, char **argv)
{
    struct job job;
    double failed = 0;
    parse(argc, argv);
    check_files();
    job_start(&job);
    if (bench.options.root >= job.nranks)
        job_refuse(2, "-r: found %ld, valid is a rank from 0 to %d",
                   bench.options.root, job.nranks - 1);
    if (job.nranks == 1 && all_but(PINGPONG) == 0)
        job_refuse(2, "found one rank, a pingpong takes two ranks");
    struct baseline *const base = prepare_files(&job);
    machine_describe(bench.machine, sizeof bench.machine);
    sweep(&bench, &job, base);
    if (job.rank == 0) {
        table_foot(&bench);
        failed = !write_files(&job) || !flush_output();
    }
    job_max(&job, &failed, 1);
    baseline_free(base);
    const bool wrong = all_wrong() > 0;
    free(bench.results);
    job_finish(&job);
    return wrong || failed > 0;
}
