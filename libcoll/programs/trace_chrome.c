/* SPDX-License-Identifier: MIT */
#include "programs/trace_chrome.h"

#include <math.h>

#include "coll/coll.h"
#include "programs/json.h"
#include "programs/whole_file.h"

/* The name of a group or row. */
static void put_title(struct json *out, const char *of, int job, int rank,
                      const char *title)
{
    json_begin(out, NULL, '{');
    json_text(out, "ph", "M");
    json_text(out, "name", of);
    json_number(out, "pid", job + 1);
    json_number(out, "tid", rank);
    json_begin(out, "args", '{');
    json_text(out, "name", title);
    json_end(out, '}');
    json_end(out, '}');
}

/* What is common to the events of one record. */
static void begin_event(struct json *out, const struct trace_job *j, int job,
                        int file, const struct record *r, const char *phase)
{
    json_begin(out, NULL, '{');
    json_text(out, "ph", phase);
    json_text(out, "name", trace_kind(j->files[file], r));
    json_number(out, "pid", job + 1);
    json_number(out, "tid", j->files[file]->header.rank);
}

static void put_status(struct json *out, const struct record *r)
{
    json_text(out, "status",
              !r->ended ? "never ended"
                        : coll_status_string((coll_status)r->status));
}

/* What has not ended lasts until the job's last event. */
static double end_of(const struct trace_job *j, int file,
                     const struct record *r)
{
    return fmax(r->ended ? trace_job_time(j, file, r->ended) : j->last_ns,
                trace_job_time(j, file, r->begun));
}

static void put_operation(struct json *out, const struct trace_job *j, int job,
                          const struct trace_entry *e, double from_ns)
{
    char call[TRACE_CALL], way[TRACE_CALL];
    const struct trace_file *f = j->files[e->rank];
    const struct record *r = e->record;
    const double begun = trace_job_time(j, e->rank, r->begun);
    begin_event(out, j, job, e->rank, r, "X");
    json_text(out, "cat", r->flags & RECORD_MEETING ? "meeting" : "collective");
    json_number(out, "ts", 1e-3 * (begun - from_ns));
    json_number(out, "dur", 1e-3 * (end_of(j, e->rank, r) - begun));
    json_begin(out, "args", '{');
    json_number(out, "operation", (double)r->number);
    json_text(out, "call", trace_call(f, r, call));
    json_text(out, "algorithm", trace_way(f, r, way));
    put_status(out, r);
    json_end(out, '}');
    json_end(out, '}');
}

/* Many may be under way at once: each is a row of its own while it lasts. */
static void put_message(struct json *out, const struct trace_job *j, int job,
                        int file, const struct record *r, double from_ns)
{
    char call[TRACE_CALL], id[64];
    const struct trace_file *f = j->files[file];
    snprintf(id, sizeof(id), "%d.%d.%llu", job + 1, f->header.rank,
             (unsigned long long)r->number);
    for (int end = 0; end < 2; end++) {
        begin_event(out, j, job, file, r, end ? "e" : "b");
        json_text(out, "cat", "message");
        json_text(out, "id", id);
        json_number(out, "ts",
                    1e-3
                        * ((end ? end_of(j, file, r)
                                : trace_job_time(j, file, r->begun))
                           - from_ns));
        if (!end) {
            json_begin(out, "args", '{');
            json_text(out, "call", trace_call(f, r, call));
            put_status(out, r);
            json_end(out, '}');
        }
        json_end(out, '}');
    }
}

static void put_job(struct json *out, const struct trace_job *j, int job,
                    double from_ns)
{
    char title[256];
    snprintf(title, sizeof(title), "job %016llx",
             (unsigned long long)j->files[0]->header.job);
    put_title(out, "process_name", job, 0, title);
    for (int f = 0; f < j->n; f++) {
        const struct record_header *h = &j->files[f]->header;
        snprintf(title, sizeof(title), "rank %d (%s, %d)", h->rank, h->host,
                 h->pid);
        put_title(out, "thread_name", job, h->rank, title);
    }
    for (size_t i = 0; i < j->nentries; i++)
        put_operation(out, j, job, &j->entries[i], from_ns);
    for (int f = 0; f < j->n; f++)
        for (size_t i = 0; i < j->files[f]->nmessages; i++)
            put_message(out, j, job, f, &j->files[f]->messages[i], from_ns);
}

/* Jobs of other machines than the first one's are no nearer than by date. */
static double shift(const struct trace_job *first, const struct trace_job *j)
{
    const struct record_header *a = &first->files[0]->header,
                               *b = &j->files[0]->header;
    return a->machine && a->machine == b->machine
               ? 0
               : (double)(b->first.real_ns - b->first.monotonic_ns)
                     - (double)(a->first.real_ns - a->first.monotonic_ns);
}

bool trace_chrome_write(const struct trace_job *jobs, int n, const char *path,
                        char error[TRACE_ERROR])
{
    struct whole_file file;
    double from = INFINITY;
    if (!whole_file_begin(&file, path, error, TRACE_ERROR))
        return false;
    for (int i = 0; i < n; i++)
        from = fmin(from, jobs[i].first_ns + shift(&jobs[0], &jobs[i]));
    struct json out = {.file = file.stream};
    json_begin(&out, NULL, '{');
    json_text(&out, "displayTimeUnit", "ns");
    json_begin(&out, "traceEvents", '[');
    for (int i = 0; i < n; i++)
        put_job(&out, &jobs[i], i, from - shift(&jobs[0], &jobs[i]));
    json_end(&out, ']');
    json_end(&out, '}');
    return whole_file_end(&file, true, error, TRACE_ERROR);
}
