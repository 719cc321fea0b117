/* SPDX-License-Identifier: MIT */
/* coll_tune: lets the library learn what its algorithms take on the ranks of a
 * job, and keeps it for later jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "coll/log.h"
#include "programs/options.h"
#include "programs/tune_report.h"
#include "programs/tune_run.h"
#include "programs/tune_store.h"

enum { WORDS = 1024, MOST_COLLECTIVES = 9 };

static struct {
    size_t min_bytes, max_bytes;
    double factor;
    long iterations;
    double seconds;
    const char *dtype, *json, *plot;
    bool show, forget;
} options = {
    .min_bytes = 8,
    .max_bytes = (size_t)16 << 20,
    .factor = 2,
    .iterations = 300,
    .seconds = 3,
    .dtype = "f32",
};
static char dtypes[WORDS];

/* clang-format off */
static const struct option_row rows[] = {
    {.letter = 'b', .name = "min-bytes", .arg = "MIN", .kind = OPTION_BYTES,
     .out = &options.min_bytes, .min = 1, .max = 1e15,
     .help = "shortest vector; all parts of it, where ranks have one each "
             "(default 8)"},
    {.letter = 'e', .name = "max-bytes", .arg = "MAX", .kind = OPTION_BYTES,
     .out = &options.max_bytes, .min = 1, .max = 1e15,
     .help = "longest vector (default 16M)"},
    {.letter = 'f', .name = "factor", .arg = "FACTOR", .kind = OPTION_NUMBER,
     .out = &options.factor, .min = 1.1, .max = 1e9,
     .help = "from one length to the next (default 2; what is learned of a "
             "length serves up to its double, so more leaves gaps, which are "
             "told)"},
    {.letter = 'n', .name = "iterations", .arg = "N", .kind = OPTION_INT,
     .out = &options.iterations, .min = 1, .max = 1e9,
     .help = "operations per length, at most (default 300)"},
    {.name = "seconds", .arg = "LIMIT", .kind = OPTION_NUMBER,
     .out = &options.seconds, .min = 1e-3, .max = 1e6,
     .help = "time per length, at most (default 3)"},
    {.letter = 'd', .name = "dtype", .arg = "DTYPE", .kind = OPTION_TEXT,
     .out = &options.dtype, .choices = dtypes,
     .help = "type of the elements (default f32)"},
    {.name = "json", .arg = "FILE", .kind = OPTION_TEXT, .out = &options.json,
     .help = "write the results as JSON"},
    {.name = "plot", .arg = "FILE.png", .kind = OPTION_TEXT,
     .out = &options.plot,
     .help = "draw time over length of all that was measured; with --show, of "
             "what was stored last"},
    {.name = "show", .kind = OPTION_FLAG, .out = &options.show,
     .help = "run nothing; show what is stored"},
    {.name = "forget", .kind = OPTION_FLAG, .out = &options.forget,
     .help = "run nothing; delete what is stored"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_tune",
    .usage = "collrun -n RANKS coll_tune [COLLECTIVE|all] [OPTION...]\n"
             "coll_tune --show [COLLECTIVE] [--plot FILE.png]\n"
             "coll_tune --forget",
    .summary = "Runs collectives until libcoll has tried its algorithms on the "
               "ranks of a job,\nshows what they took, and stores it for later "
               "jobs.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
    .epilogue = "COLLECTIVE: allreduce, reduce, broadcast, reduce_scatter, "
                "allgather, gather, scatter,\nalltoall or barrier; all of them "
                "if none is named. Rank 0 is the root. Sizes take\nK, M, G for "
                "powers of 1024. Every rank gives the same options.",
};

static void list_dtypes(void)
{
    const char *word;
    for (int i = 0; (word = coll_dtype_name((coll_dtype)i)); i++) {
        const size_t used = strlen(dtypes);
        snprintf(dtypes + used, sizeof(dtypes) - used, "%s%s", used ? "|" : "",
                 word);
    }
}

/* The collective that is named; NULL: all. */
static const char *read_operand(int noperands, char **argv)
{
    const char *known[MOST_COLLECTIVES + 1];
    int n = 0;
    if (noperands == 0)
        return NULL;
    if (noperands > 1)
        options_die(&program,
                    "found \"%s\" after \"%s\", valid is one collective",
                    argv[2], argv[1]);
    for (; (known[n] = tune_collective(n)); n++)
        if (!strcmp(argv[1], known[n]))
            return known[n];
    known[n++] = "all";
    if (!strcmp(argv[1], "all"))
        return NULL;
    const char *near = nearest_name(argv[1], known, n);
    options_die(
        &program,
        "found the collective \"%s\", valid are allreduce, reduce, "
        "broadcast, reduce_scatter, allgather, gather, scatter, alltoall, "
        "barrier, all%s%s%s",
        argv[1], near ? "; did you mean " : "", near ? near : "",
        near ? "?" : "");
}

static bool is_first(void)
{
    const char *rank =
        getenv("COLL_RANK") ? getenv("COLL_RANK") : getenv("RANK");
    return !rank || !*rank || !strcmp(rank, "0");
}

static void check_options(const char *collective)
{
    const char *stored = options.show ? "--show" : "--forget";
    if (options.show && options.forget)
        options_die(&program, "found both --show and --forget, valid is one");
    if (options.forget && collective)
        options_die(&program,
                    "--forget: found \"%s\", valid is no collective: "
                    "all is deleted",
                    collective);
    if ((options.show || options.forget) && options.json)
        options_die(&program, "--json: only valid without %s", stored);
    if (options.forget && options.plot)
        options_die(&program, "--plot: only valid without --forget");
    if (options.min_bytes > options.max_bytes)
        options_die(&program, "-b: found %zu, which is more than -e %zu",
                    options.min_bytes, options.max_bytes);
    /* Only rank 0 writes files, and only where it runs can they be judged. */
    const struct option_file files[] = {
        {"--json", options.json, FILE_WRITTEN},
        {"--plot", options.plot, FILE_WRITTEN},
    };
    if (is_first())
        options_check_files(&program, files, 2);
}

static int end_output(int status)
{
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_tune: standard output");
        return 1;
    }
    return status;
}

/* --show and --forget want no job; in one, rank 0 answers. */
static int about_stored(const char *collective)
{
    char folder[TUNE_PATH_BYTES];
    const char *why;
    if (!is_first())
        return 0;
    if (!tune_folder(folder, sizeof(folder), &why)) {
        printf("Nothing is stored: %s.\n", why);
        return end_output(0);
    }
    return end_output(options.show ? tune_show(folder, collective, options.plot)
                                   : tune_forget(folder));
}

/* --- a run ------------------------------------------------------------------
 */

struct run {
    struct tune_job job;
    struct tune_result *results;
    int n;
};

/* What the library last said of the store. */
static char store_said[WORDS];

static void on_log(coll_log_level level, const char *subject, const char *line,
                   void *context)
{
    static const char *const names[] = {"off", "error", "warn", "info",
                                        "debug"};
    (void)context;
    /* An error that ends the run is told once, by the program. */
    if (level > COLL_LOG_ERROR || getenv("COLL_LOG"))
        fprintf(stderr, "coll: %s: %s: %s\n", names[level], subject, line);
    if (level <= COLL_LOG_WARN && !strcmp(subject, "store"))
        snprintf(store_said, sizeof(store_said), "%s", line);
}

static void run_length(struct run *run, const char *collective, size_t bytes,
                       size_t *last)
{
    struct tune_result r = {.collective = collective, .bytes = bytes};
    r.count = tune_count(&run->job, collective, &r.bytes);
    if (*last && r.count == *last)
        return; /* a multiple of the ranks, as the one before */
    *last = r.count;
    tune_size(&run->job, &r);
    if (run->job.rank != 0)
        return;
    struct tune_result *more =
        realloc(run->results, (size_t)(run->n + 1) * sizeof(*more));
    if (!more)
        tune_fail(&run->job, "no memory for the results");
    run->results = more;
    run->results[run->n++] = r;
    if (r.native)
        return;
    if (run->n == 1)
        tune_table_head(run->job.nranks);
    tune_table_row(&r);
}

static void run_collective(struct run *run, const char *collective)
{
    size_t last = 0;
    if (!strcmp(collective, "barrier")) {
        run_length(run, collective, 0, &last);
        return;
    }
    for (double bytes = (double)options.min_bytes;
         bytes <= (double)options.max_bytes; bytes *= options.factor)
        run_length(run, collective, (size_t)bytes, &last);
}

/* Why nothing can be learned, however long it runs; NULL: it can. */
static const char *hopeless(const struct run *run)
{
    if (run->job.nranks == 1)
        return "One rank has nothing to tune: start a job, such as collrun -n "
               "4 coll_tune.";
    if (!strcmp(tune_setting("COLL_ADAPT"), "off"))
        return "COLL_ADAPT is off: nothing is learned.";
    if (!strcmp(tune_setting("COLL_DETERMINISM"), "run")
        || !strcmp(tune_setting("COLL_DETERMINISM"), "layout"))
        return "With that COLL_DETERMINISM nothing is learned; with full it "
               "is.";
    return NULL;
}

/* The same, after the run. */
static const char *in_vain(const struct run *run)
{
    int native = 0, learned = 0;
    for (int i = 0; i < run->n; i++) {
        native += run->results[i].native;
        learned += run->results[i].candidates->samples > 0;
    }
    if (native == run->n)
        return "All ranks are on one host, where shared memory serves these "
               "collectives: there is nothing to learn. (COLL_TRANSPORT=ucx "
               "sends messages instead.)";
    return learned
               ? NULL
               : "Nothing was learned: too few operations ran, or COLL_ALGO "
                 "leaves no choice.";
}

/* A line about where it went; returns the file, which is in now. */
static const char *tell_stored(const struct run *run,
                               const struct tune_files *before,
                               struct tune_files *now)
{
    char folder[TUNE_PATH_BYTES];
    const char *why;
    const struct tune_file *file = NULL;
    if (!tune_folder(folder, sizeof(folder), &why)) {
        printf("Not stored: %s.\n", why);
        return NULL;
    }
    if (tune_list(folder, now))
        file = tune_new(before, now);
    if (file)
        printf("Stored in %s, for later jobs of %d ranks that are spread over "
               "hosts like these.\n",
               file->path, run->job.nranks);
    else if (*store_said)
        printf("Not stored: %s\n", store_said);
    else
        printf("Not stored in %s: the library wrote nothing there.\n", folder);
    return file ? file->path : NULL;
}

/* Rank 0, after the job: what is stored is there now. */
static int report(const struct run *run, const char *note,
                  const struct tune_files *before)
{
    struct tune_files now = {.n = 0};
    char subtitle[64];
    struct tune_report t = {
        .results = run->results,
        .n = run->n,
        .nranks = run->job.nranks,
        .dtype = options.dtype,
        .note = note,
        .subtitle = subtitle,
        .marked = "chosen",
    };
    snprintf(subtitle, sizeof(subtitle), "%d ranks, measured by coll_tune",
             t.nranks);
    if (note) {
        printf("%s\n", note);
    } else {
        tune_table_foot(&t);
        t.stored = tell_stored(run, before, &now);
    }
    bool ok = !options.json || tune_write_json(&t, options.json);
    ok = (!options.plot || tune_write_plot(&t, options.plot)) && ok;
    free(now.file);
    return end_output(!ok);
}

static void start(struct run *run)
{
    coll_log_set_hook(is_first() ? on_log : NULL, NULL);
    const coll_status status = coll_comm_init(&run->job.comm);
    if (status != COLL_OK) {
        fprintf(stderr, "coll_tune: %s\n", coll_last_error(NULL));
        exit(status == COLL_ERR_INVALID ? 2 : 1);
    }
    run->job.rank = coll_comm_user_rank(run->job.comm);
    run->job.nranks = coll_comm_count(run->job.comm);
    run->job.iterations = options.iterations;
    run->job.seconds = options.seconds;
    coll_dtype_find(options.dtype, &run->job.dtype);
}

static void finish(struct run *run)
{
    free(run->job.send);
    free(run->job.recv);
    if (coll_comm_destroy(run->job.comm) == COLL_OK)
        return;
    fprintf(stderr, "coll_tune: rank %d: %s\n", run->job.rank,
            coll_last_error(NULL));
    exit(1);
}

static int tune(const char *collective)
{
    char folder[TUNE_PATH_BYTES];
    const char *why, *name;
    struct run run = {.n = 0};
    struct tune_files before = {.n = 0};
    start(&run);
    const char *note = hopeless(&run);
    if (!note)
        tune_links(&run.job);
    if (run.job.rank == 0 && tune_folder(folder, sizeof(folder), &why))
        tune_list(folder, &before);
    if (!note) {
        tune_allocate(&run.job, options.max_bytes);
        for (int i = 0; (name = tune_collective(i)); i++)
            if (!collective || !strcmp(name, collective))
                run_collective(&run, name);
        if (run.job.rank == 0)
            note = in_vain(&run);
    }
    finish(&run);
    const int status = run.job.rank == 0 ? report(&run, note, &before) : 0;
    for (int i = 0; i < run.n; i++)
        free(run.results[i].candidates);
    free(run.results);
    free(before.file);
    return status;
}

int main(int argc, char **argv)
{
    int noperands;
    list_dtypes();
    options_parse(&program, argc, argv, &noperands, false);
    const char *collective = read_operand(noperands, argv);
    check_options(collective);
    if (options.show || options.forget)
        return about_stored(collective);
    return tune(collective);
}
