/* SPDX-License-Identifier: MIT */
/* coll_trace: what the ranks of a job did last, from their flight records. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/options.h"
#include "programs/trace_chrome.h"

static const char *job, *output;

/* clang-format off */
static const struct option_row rows[] = {
    {.name = "job", .arg = "ID", .kind = OPTION_TEXT, .out = &job,
     .help = "only this job: the digits behind coll- in the names of its "
             "files, or the first few of them"},
    {.letter = 'o', .name = "output", .arg = "FILE", .kind = OPTION_TEXT,
     .out = &output,
     .help = "write all operations as a trace for Perfetto (ui.perfetto.dev) "
             "or chrome://tracing"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_trace",
    .usage = "coll_trace [FILE|DIR...] [OPTION...]",
    .summary = "Says what the ranks of a job did last and where they diverged, "
               "from the flight\nrecords that libcoll keeps of running, failed "
               "and killed jobs.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
    .epilogue = "FILE, DIR: records, or folders of them (default: where this "
                "user's jobs keep\nthem, see COLL_RECORDER). Status: 0, 1 if "
                "ranks diverged, 2 if a file could not\nbe read or the command "
                "line is wrong.",
};

static struct {
    struct trace_file *file;
    int n, room;
    int wrong; /* files that could not be read */
} all;

static void complain(const char *line)
{
    fprintf(stderr, "coll_trace: %s\n", line);
    all.wrong++;
}

static void *resize(void *memory, size_t bytes)
{
    void *more = realloc(memory, bytes);
    if (!more)
        options_die(&program, "no memory for the records");
    return more;
}

static bool is_wanted(const struct trace_file *f)
{
    char id[20];
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)f->header.job);
    return !job || !strncmp(id, job, strlen(job));
}

static void read_file(const char *path)
{
    char error[TRACE_ERROR];
    if (all.n == all.room) {
        all.room = all.room ? 2 * all.room : 64;
        all.file = resize(all.file, (size_t)all.room * sizeof(*all.file));
    }
    struct trace_file *f = &all.file[all.n];
    const bool ok = trace_file_read(f, path, error);
    if (!ok)
        complain(error);
    if (ok && is_wanted(f))
        all.n++;
    else
        trace_file_free(f);
}

/* Only what is named as records are: others may live there too. */
static void read_folder(const char *path)
{
    struct dirent **names;
    char file[4096], line[TRACE_ERROR];
    long pid;
    const int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        snprintf(line, sizeof(line), "%s: cannot be read: %s", path,
                 strerror(errno));
        complain(line);
    }
    for (int i = 0; i < n; i++) {
        if (record_is_name(names[i]->d_name, &pid)
            && snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name)
                   < (int)sizeof(file))
            read_file(file);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static void read_path(const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        read_folder(path);
    else
        read_file(path);
}

static int by_age(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;
    const int64_t one = x->files[0]->header.first.real_ns,
                  other = y->files[0]->header.first.real_ns;
    return (one > other) - (one < other);
}

/* The files by job, the oldest first. Returns how many there are. */
static int make_jobs(struct trace_job **jobs)
{
    struct trace_file **some =
        resize(NULL, ((size_t)all.n + 1) * sizeof(struct trace_file *));
    bool *taken = resize(NULL, (size_t)all.n + 1);
    int n = 0;
    memset(taken, 0, (size_t)all.n + 1);
    *jobs = resize(NULL, ((size_t)all.n + 1) * sizeof(**jobs));
    for (int i = 0; i < all.n; i++) {
        int count = 0;
        for (int k = i; k < all.n && !taken[i]; k++)
            if (all.file[k].header.job == all.file[i].header.job)
                some[count++] = &all.file[k];
        for (int k = 0; k < count; k++)
            taken[some[k] - all.file] = true;
        if (count && !trace_job_make(&(*jobs)[n++], some, count))
            options_die(&program, "no memory for the records");
    }
    qsort(*jobs, (size_t)n, sizeof(**jobs), by_age);
    free(some);
    free(taken);
    return n;
}

static void read_default(void)
{
    const char *why = NULL;
    char *folder = record_folder(&why);
    if (!folder)
        options_die(&program, "there are no records: %s",
                    why ? why : "COLL_RECORDER is off");
    read_folder(folder);
    free(folder);
}

int main(int argc, char **argv)
{
    int noperands;
    char error[TRACE_ERROR];
    struct trace_job *jobs;
    bool diverged = false;
    options_parse(&program, argc, argv, &noperands, false);
    if (job && (!*job || strspn(job, "0123456789abcdef") != strlen(job)))
        options_die(&program,
                    "--job: found \"%s\", valid are digits 0 to 9 and a to f",
                    job);
    const struct option_file file = {"--output", output, FILE_WRITTEN};
    options_check_files(&program, &file, 1);
    for (int i = 1; i <= noperands; i++)
        read_path(argv[i]);
    if (noperands == 0)
        read_default();
    const int n = make_jobs(&jobs);
    for (int i = 0; i < n; i++) {
        if (i)
            puts("");
        diverged |= trace_verdict(&jobs[i]);
    }
    if (n == 0)
        puts("No job is on record.");
    if (output && n && !trace_chrome_write(jobs, n, output, error))
        complain(error);
    for (int i = 0; i < n; i++)
        trace_job_free(&jobs[i]);
    for (int i = 0; i < all.n; i++)
        trace_file_free(&all.file[i]);
    free(jobs);
    free(all.file);
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_trace");
        return 2;
    }
    return diverged ? 1 : all.wrong ? 2 : 0;
}
