/* SPDX-License-Identifier: MIT */
#include "programs/trace_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_rank(const void *a, const void *b)
{
    const struct trace_file *const *x = a, *const *y = b;
    return ((*x)->header.rank > (*y)->header.rank)
           - ((*x)->header.rank < (*y)->header.rank);
}

static int by_number(const void *a, const void *b)
{
    const struct trace_entry *x = a, *y = b;
    if (x->record->number != y->record->number)
        return x->record->number < y->record->number ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool list_entries(struct trace_job *j)
{
    size_t room = 1;
    for (int f = 0; f < j->n; f++)
        room += j->files[f]->n;
    j->entries = malloc(room * sizeof(*j->entries));
    if (!j->entries)
        return false;
    for (int f = 0; f < j->n; f++)
        for (size_t i = 0; i < j->files[f]->n; i++)
            j->entries[j->nentries++] = (struct trace_entry){
                .rank = f, .record = &j->files[f]->records[i]};
    qsort(j->entries, j->nentries, sizeof(*j->entries), by_number);
    return true;
}

/* Files of unknown machines have a clock each. */
static bool find_machines(struct trace_job *j)
{
    j->machine = malloc((size_t)j->n * sizeof(int));
    j->clocks = calloc((size_t)j->n, sizeof(*j->clocks));
    if (!j->machine || !j->clocks)
        return false;
    for (int f = 0; f < j->n; f++) {
        const uint64_t machine = j->files[f]->header.machine;
        int same = 0;
        while (same < f
               && (!machine || j->files[same]->header.machine != machine))
            same++;
        j->machine[f] = same < f ? j->machine[same] : j->nmachines++;
    }
    return true;
}

/* Whether no rank is through before all have come. */
static bool waits_for_all(const struct trace_file *f, const struct record *r)
{
    static const char *const kinds[] = {"allreduce", "allgather",
                                        "reduce_scatter", "alltoall"};
    const char *kind = trace_kind(f, r);
    if (!r->ended || r->status != COLL_OK
        || r->called.what & CALLED_UNEVEN) /* nobody waits for an empty part */
        return false;
    if (!strcmp(kind, "barrier") || r->flags & RECORD_MEETING)
        return true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!strcmp(kind, kinds[i]))
            return r->called.count > 0;
    return false;
}

/* The last begin and the first end of an operation on a machine. */
struct span {
    double begun, ended;
};

static struct span span_of(const struct trace_job *j, size_t from, size_t n,
                           int machine)
{
    struct span s = {-INFINITY, INFINITY};
    for (size_t i = from; i < from + n; i++) {
        const struct trace_entry *e = &j->entries[i];
        const struct trace_file *f = j->files[e->rank];
        if (j->machine[e->rank] != machine || !waits_for_all(f, e->record))
            continue;
        s.begun = fmax(s.begun, trace_time(f, e->record->begun));
        s.ended = fmin(s.ended, trace_time(f, e->record->ended));
    }
    return s;
}

size_t trace_job_run(const struct trace_job *j, size_t i)
{
    size_t n = 1;
    while (i + n < j->nentries
           && j->entries[i + n].record->number == j->entries[i].record->number)
        n++;
    return n;
}

static double date_offset(const struct trace_file *f)
{
    return (double)f->header.first.real_ns
           - (double)f->header.first.monotonic_ns;
}

static void align(struct trace_job *j, int machine)
{
    double least = -INFINITY, most = INFINITY;
    for (size_t i = 0, n; i < j->nentries; i += n) {
        n = trace_job_run(j, i);
        const struct span here = span_of(j, i, n, 0),
                          there = span_of(j, i, n, machine);
        most = fmin(most, here.ended - there.begun);
        least = fmax(least, here.begun - there.ended);
    }
    struct trace_clock *c = &j->clocks[machine];
    int of = 0;
    while (j->machine[of] != machine)
        of++;
    c->matched = isfinite(least) && isfinite(most) && least <= most;
    c->offset_ns = c->matched
                       ? (least + most) / 2
                       : date_offset(j->files[of]) - date_offset(j->files[0]);
    c->doubt_ns = c->matched ? (most - least) / 2 : 0;
}

static void find_range(struct trace_job *j, int file, const struct record *r,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double begun = trace_job_time(j, file, r[i].begun);
        const double ended =
            r[i].ended ? trace_job_time(j, file, r[i].ended) : begun;
        j->first_ns = fmin(j->first_ns, begun);
        j->last_ns = fmax(j->last_ns, fmax(begun, ended));
    }
}

bool trace_job_make(struct trace_job *j, struct trace_file **files, int n)
{
    *j = (struct trace_job){.n = 0};
    j->files = malloc((size_t)n * sizeof(struct trace_file *));
    if (!j->files)
        return false;
    memcpy(j->files, files, (size_t)n * sizeof(struct trace_file *));
    qsort(j->files, (size_t)n, sizeof(struct trace_file *), by_rank);
    for (int i = 0; i < n; i++)
        if (!j->n
            || j->files[j->n - 1]->header.rank != j->files[i]->header.rank)
            j->files[j->n++] = j->files[i];
    if (!list_entries(j) || !find_machines(j))
        return false;
    for (int m = 1; m < j->nmachines; m++)
        align(j, m);
    j->first_ns = INFINITY;
    j->last_ns = -INFINITY;
    for (int f = 0; f < j->n; f++) {
        find_range(j, f, j->files[f]->records, j->files[f]->n);
        find_range(j, f, j->files[f]->messages, j->files[f]->nmessages);
    }
    return true;
}

void trace_job_free(struct trace_job *j)
{
    free(j->files);
    free(j->entries);
    free(j->machine);
    free(j->clocks);
}

double trace_job_time(const struct trace_job *j, int file, uint64_t ticks)
{
    return trace_time(j->files[file], ticks)
           + j->clocks[j->machine[file]].offset_ns;
}
