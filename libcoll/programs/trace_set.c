/* SPDX-License-Identifier: MIT */
#include "programs/trace_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What the functions below share. */
struct reader {
    struct trace_set *set;
    const struct program *program;
    const char *job;
    bool quiet;
};

static void complain(const struct reader *r, const char *line)
{
    if (!r->quiet)
        fprintf(stderr, "%s: %s\n", r->program->name, line);
    r->set->wrong++;
}

static void *resize(const struct reader *r, void *memory, size_t bytes)
{
    void *more = realloc(memory, bytes);
    if (!more)
        options_die(r->program, "no memory for the records");
    return more;
}

static bool is_wanted(const struct reader *r, const struct trace_file *f)
{
    char id[20];
    snprintf(id, sizeof(id), "%016llx", (unsigned long long)f->header.job);
    return !r->job || !strncmp(id, r->job, strlen(r->job));
}

/* found: in a folder, so that it may just be made or removed. */
static void read_file(const struct reader *r, const char *path, bool found)
{
    struct trace_set *s = r->set;
    char error[TRACE_ERROR];
    if (s->nfiles == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->files = resize(r, s->files, (size_t)s->room * sizeof(*s->files));
    }
    struct trace_file *f = &s->files[s->nfiles];
    errno = 0;
    bool ok = trace_file_read(f, path, error);
    const bool passing = found && (f->passing || (!ok && errno == ENOENT));
    if (!ok && !passing)
        complain(r, error);
    ok = ok && !passing;
    if (ok && is_wanted(r, f))
        s->nfiles++;
    else
        trace_file_free(f);
}

/* Only what is named as records are: others may live there too. */
static void read_folder(const struct reader *r, const char *path)
{
    struct dirent **names;
    char file[4096], line[TRACE_ERROR];
    long pid;
    const int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        snprintf(line, sizeof(line), "%s: cannot be read: %s", path,
                 strerror(errno));
        complain(r, line);
    }
    for (int i = 0; i < n; i++) {
        if (record_is_name(names[i]->d_name, &pid)
            && snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name)
                   < (int)sizeof(file))
            read_file(r, file, true);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static void read_path(const struct reader *r, const char *path)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        read_folder(r, path);
    else
        read_file(r, path, false);
}

static void read_default(const struct reader *r)
{
    const char *why = NULL;
    char *folder = record_folder(&why);
    if (!folder)
        options_die(r->program, "there are no records: %s",
                    why ? why : "COLL_RECORDER is off");
    read_folder(r, folder);
    free(folder);
}

static int by_age(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;
    const int64_t one = x->files[0]->header.first.real_ns,
                  other = y->files[0]->header.first.real_ns;
    return (one > other) - (one < other);
}

static void make_jobs(const struct reader *r)
{
    struct trace_set *s = r->set;
    const size_t room = (size_t)s->nfiles + 1;
    struct trace_file **some =
        resize(r, NULL, room * sizeof(struct trace_file *));
    bool *taken = resize(r, NULL, room);
    memset(taken, 0, room);
    s->jobs = resize(r, NULL, room * sizeof(*s->jobs));
    for (int i = 0; i < s->nfiles; i++) {
        int count = 0;
        for (int k = i; k < s->nfiles && !taken[i]; k++)
            if (s->files[k].header.job == s->files[i].header.job)
                some[count++] = &s->files[k];
        for (int k = 0; k < count; k++)
            taken[some[k] - s->files] = true;
        if (count && !trace_job_make(&s->jobs[s->njobs++], some, count))
            options_die(r->program, "no memory for the records");
    }
    qsort(s->jobs, (size_t)s->njobs, sizeof(*s->jobs), by_age);
    free(some);
    free(taken);
}

void trace_set_check(const struct program *program, const char *job)
{
    const size_t n = job ? strlen(job) : 1;
    if (n < 1 || n > 16 || (job && strspn(job, "0123456789abcdef") != n))
        options_die(program,
                    "--job: found \"%s\", valid are up to 16 digits 0 to 9 and "
                    "a to f",
                    job);
}

void trace_set_read(struct trace_set *s, const struct program *program,
                    char **paths, int n, const char *job, bool quiet)
{
    const struct reader r = {s, program, job, quiet};
    *s = (struct trace_set){.nfiles = 0};
    for (int i = 0; i < n; i++)
        read_path(&r, paths[i]);
    if (n == 0)
        read_default(&r);
    make_jobs(&r);
}

void trace_set_free(struct trace_set *s)
{
    for (int i = 0; i < s->njobs; i++)
        trace_job_free(&s->jobs[i]);
    for (int i = 0; i < s->nfiles; i++)
        trace_file_free(&s->files[i]);
    free(s->jobs);
    free(s->files);
}
