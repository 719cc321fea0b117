/* SPDX-License-Identifier: MIT */
#include "programs/ras.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/here.h"

const char *const ras_state_names[] = {"idle",    "working", "waiting",
                                       "stalled", "broken",  "failed"};
const char *const ras_process_names[] = {"running", "sleeping", "blocked",
                                         "stopped", "gone",     "elsewhere"};

bool ras_runs(const struct trace_job *j)
{
    for (int f = 0; f < j->n; f++)
        if (j->files[f]->written)
            return true;
    return false;
}

bool ras_is_wrong(const struct ras_comm *c)
{
    return c->state >= RAS_STALLED;
}

bool ras_is_in(const struct ras_rank *r)
{
    return r->last && !r->last->ended;
}

static bool is_here(const struct trace_file *f)
{
    return f->header.machine && f->header.machine == here_machine();
}

/* The third word of /proc/PID/stat, behind a name that may have any letters. */
static enum ras_process process_of(const struct trace_file *f)
{
    char path[64], line[512];
    if (!f->written)
        return RAS_GONE;
    if (!is_here(f) || !f->writer)
        return RAS_ELSEWHERE;
    snprintf(path, sizeof(path), "/proc/%ld/stat", f->writer);
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file)
        fclose(file);
    line[n] = '\0';
    const char *name = strrchr(line, ')');
    switch (name && name[1] ? name[2] : '\0') {
    case 'R':
        return RAS_RUNNING;
    case 'D':
        return RAS_BLOCKED;
    case 'T':
    case 't':
        return RAS_STOPPED;
    case '\0': /* hidden from this user */
        return RAS_ELSEWHERE;
    default: /* 'Z': of a process whose other threads go on */
        return RAS_SLEEPING;
    }
}

/* Now, on the first machine's clock; without a rank on this one the last event
 * is the latest moment that is known. */
static double now_of(const struct trace_job *j)
{
    const double now = (double)record_nanoseconds(CLOCK_MONOTONIC);
    for (int f = 0; f < j->n; f++)
        if (is_here(j->files[f]))
            return now + j->clocks[j->machine[f]].offset_ns;
    return j->last_ns;
}

static double seconds_since(const struct trace_job *j, int file, uint64_t ticks,
                            double now)
{
    return fmax(0, 1e-9 * (now - trace_job_time(j, file, ticks)));
}

static void find_messages(const struct trace_job *j, int i, double now,
                          struct ras_rank *r)
{
    const struct trace_file *f = j->files[i];
    for (size_t k = 0; k < f->nmessages; k++) {
        if (f->messages[k].ended)
            continue;
        if (!r->messages++)
            r->message = &f->messages[k];
    }
    if (r->message)
        r->message_seconds = seconds_since(j, i, r->message->begun, now);
}

static uint64_t number_of(const struct record *records, size_t n)
{
    return n ? records[n - 1].number : 0;
}

static size_t open_messages(const struct trace_file *f)
{
    size_t n = 0;
    for (size_t k = 0; k < f->nmessages; k++)
        n += !f->messages[k].ended;
    return n;
}

/* The same rank's record, as it was before. */
static const struct trace_file *before(const struct trace_set *earlier,
                                       const struct trace_file *f)
{
    for (int i = 0; i < earlier->nfiles; i++) {
        const struct record_header *h = &earlier->files[i].header;
        if (h->job == f->header.job && h->rank == f->header.rank
            && h->pid == f->header.pid)
            return &earlier->files[i];
    }
    return NULL;
}

static bool has_moved(const struct trace_file *was, const struct trace_file *f)
{
    const bool ended = f->n && f->records[f->n - 1].ended,
               had = was->n && was->records[was->n - 1].ended;
    return number_of(f->records, f->n) != number_of(was->records, was->n)
           || ended != had
           || number_of(f->messages, f->nmessages)
                  != number_of(was->messages, was->nmessages)
           || open_messages(f) != open_messages(was);
}

static void look_at_rank(struct ras_comm *c, int i,
                         const struct trace_file *was, double now)
{
    const struct trace_file *f = c->job->files[i];
    struct ras_rank *r = &c->ranks[i];
    r->file = f;
    r->process = process_of(f);
    r->last = f->n ? &f->records[f->n - 1] : NULL;
    if (r->last)
        r->seconds = seconds_since(
            c->job, i, r->last->ended ? r->last->ended : r->last->begun, now);
    find_messages(c->job, i, now, r);
    r->moved = was && has_moved(was, f);
    const uint64_t number = r->last ? r->last->number : 0;
    if (number > c->operation)
        c->operation = number;
}

/* How late ranks are, over the operations that all have on record. */
static void find_late(struct ras_comm *c)
{
    const struct trace_job *j = c->job;
    double from = 0, to = 0;
    for (size_t i = 0, n; i < j->nentries; i += n) {
        double first = INFINITY;
        n = trace_job_run(j, i);
        if (n < (size_t)c->n)
            continue;
        for (size_t k = i; k < i + n; k++)
            first = fmin(first, trace_job_time(j, j->entries[k].rank,
                                               j->entries[k].record->begun));
        for (size_t k = i; k < i + n; k++) {
            const struct trace_entry *e = &j->entries[k];
            c->ranks[e->rank].late +=
                1e-9 * (trace_job_time(j, e->rank, e->record->begun) - first);
        }
        from = c->counted++ ? from : first;
        to = first;
    }
    for (int i = 0; i < c->n && c->counted; i++) {
        c->ranks[i].late /= (double)c->counted;
        if (c->ranks[i].late > c->ranks[c->slowest].late)
            c->slowest = i;
    }
    if (c->counted > 1)
        c->period = 1e-9 * (to - from) / (double)(c->counted - 1);
}

static enum ras_state judge(const struct ras_comm *c, double stalled)
{
    bool gone = false, failed = false, in = false, moved = false;
    for (int i = 0; i < c->n; i++) {
        const struct ras_rank *r = &c->ranks[i];
        failed |= r->file->header.failed != 0;
        gone |= r->process == RAS_GONE;
        in |= ras_is_in(r) || r->messages;
        moved |= r->moved;
    }
    return failed                 ? RAS_FAILED
           : gone                 ? RAS_BROKEN
           : moved                ? RAS_WORKING
           : !in                  ? RAS_IDLE
           : c->pending > stalled ? RAS_STALLED
                                  : RAS_WAITING;
}

bool ras_look(struct ras_comm *c, const struct trace_job *j,
              const struct trace_set *earlier, double interval, double stalled)
{
    const double now = now_of(j);
    uint64_t begun = 0;
    *c = (struct ras_comm){
        .job = j, .n = j->n, .nranks = j->files[0]->header.nranks};
    c->ranks = calloc((size_t)j->n, sizeof(*c->ranks));
    if (!c->ranks)
        return false;
    for (int i = 0; i < c->n; i++) {
        const struct trace_file *was = before(earlier, j->files[i]);
        look_at_rank(c, i, was, now);
        const uint64_t number = number_of(j->files[i]->records, j->files[i]->n);
        const uint64_t had = was ? number_of(was->records, was->n) : number;
        if (number > had && number - had > begun)
            begun = number - had;
    }
    c->rate = interval > 0 ? (double)begun / interval : 0;
    for (int i = 0; i < c->n; i++) {
        struct ras_rank *r = &c->ranks[i];
        r->behind = c->operation - (r->last ? r->last->number : 0);
        if (ras_is_in(r))
            c->pending = fmax(c->pending, r->seconds);
        if (r->messages)
            c->pending = fmax(c->pending, r->message_seconds);
    }
    find_late(c);
    c->state = judge(c, stalled);
    return true;
}

void ras_free(struct ras_comm *c)
{
    free(c->ranks);
}
