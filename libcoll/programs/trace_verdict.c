/* SPDX-License-Identifier: MIT */
/* What the records of a job say, in sentences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/trace_job.h"

enum { LIST = 256 };

/* "rank 3", "ranks 0-2, 7": of the files that are marked. */
static const char *list_ranks(const struct trace_job *j, const bool *marked,
                              char text[LIST])
{
    int at = 0, n = 0, last = -1;
    char numbers[LIST - 8] = "";
    for (int f = 0; f < j->n; f++) {
        const int rank = j->files[f]->header.rank;
        if (!marked[f])
            continue;
        n++;
        int end = f;
        while (end + 1 < j->n && marked[end + 1]
               && j->files[end + 1]->header.rank
                      == j->files[end]->header.rank + 1)
            end++;
        last = j->files[end]->header.rank;
        if (at < (int)sizeof(numbers) - 40)
            at += snprintf(numbers + at, sizeof(numbers) - (size_t)at,
                           last > rank ? "%s%d-%d" : "%s%d", at ? ", " : "",
                           rank, last);
        else if (at < (int)sizeof(numbers) - 8)
            at += snprintf(numbers + at, sizeof(numbers) - (size_t)at, " ...");
        n += end - f;
        f = end;
    }
    snprintf(text, LIST, "rank%s %s", n == 1 ? "" : "s", numbers);
    return text;
}

static const struct record *last_of(const struct trace_file *f)
{
    return f->n ? &f->records[f->n - 1] : NULL;
}

static void tell_state(const struct trace_job *j, int i)
{
    char call[TRACE_CALL];
    const struct trace_file *f = j->files[i];
    const struct record *r = last_of(f);
    const unsigned long long number = r ? r->number : 0;
    printf("  rank %d (host %s, process %d", f->header.rank, f->header.host,
           f->header.pid);
    fputs(f->written ? ") " : ", which is gone) ", stdout);
    if (!r)
        fputs("has begun no operation", stdout);
    else if (!r->ended)
        printf("%s in operation %llu, %s, begun %.3g s before the last event",
               f->written ? "is" : "was", number, trace_call(f, r, call),
               1e-9 * (j->last_ns - trace_job_time(j, i, r->begun)));
    else
        printf("%s operation %llu, %s", r->status < 0 ? "failed in" : "ended",
               number, trace_call(f, r, call));
    if (f->header.failed)
        printf("; its communicator failed: %s", f->header.sentence);
    puts("");
}

/* Ranks without a file, as far as a few words go. */
static void tell_missing(const struct trace_job *j)
{
    const int nranks = j->files[0]->header.nranks;
    int told = 0, f = 0;
    for (int rank = 0; rank < nranks; rank++) {
        if (f < j->n && j->files[f]->header.rank == rank) {
            f++;
            continue;
        }
        if (told < 8)
            printf("%s%d",
                   told ? ", "
                        : "Without a file (left in order, never came, "
                          "or kept elsewhere): rank ",
                   rank);
        told++;
    }
    if (told > 8)
        printf(" and %d more", told - 8);
    if (told)
        puts(".");
}

/* Who never came to the last operation. */
static void tell_late(const struct trace_job *j, bool *marked)
{
    char there[LIST], late[LIST], call[TRACE_CALL];
    if (!j->nentries)
        return;
    const struct trace_entry *e = &j->entries[j->nentries - 1];
    const uint64_t number = e->record->number;
    int nlate = 0;
    for (int f = 0; f < j->n; f++)
        nlate += marked[f] =
            !last_of(j->files[f]) || last_of(j->files[f])->number < number;
    if (!nlate)
        return;
    list_ranks(j, marked, late);
    for (int f = 0; f < j->n; f++)
        marked[f] = !marked[f];
    list_ranks(j, marked, there);
    late[0] = 'R';
    printf("%s never came to operation %llu, which is %s of %s.\n", late,
           (unsigned long long)number,
           trace_call(j->files[e->rank], e->record, call), there);
}

/* Whether two ranks made the same call, and the same ones before it. */
static bool same_call(const struct trace_entry *a, const struct trace_entry *b)
{
    return record_tag_of_call(a->record->tag, a->record->how)
           == record_tag_of_call(b->record->tag, b->record->how);
}

static bool same_way(const struct trace_entry *a, const struct trace_entry *b)
{
    return a->record->how == b->record->how;
}

/* Each call, or way, with those that made it. */
static void tell_parties(const struct trace_job *j, size_t from, size_t n,
                         bool by_call, bool *marked)
{
    char who[LIST], what[TRACE_CALL];
    bool *told = calloc(n, sizeof(*told));
    for (size_t i = 0; i < n && told; i++) {
        const struct trace_entry *e = &j->entries[from + i];
        if (told[i])
            continue;
        memset(marked, 0, (size_t)j->n);
        for (size_t k = i; k < n; k++) {
            const struct trace_entry *o = &j->entries[from + k];
            if (by_call ? same_call(e, o) : same_way(e, o))
                marked[o->rank] = told[k] = true;
        }
        printf("%s%s %s %s", i ? "; " : "", list_ranks(j, marked, who),
               by_call ? "called" : "ran",
               by_call ? trace_call(j->files[e->rank], e->record, what)
                       : trace_way(j->files[e->rank], e->record, what));
    }
    puts(".");
    free(told);
}

/* The first operation that differs; what follows it says nothing. */
static bool tell_divergence(const struct trace_job *j, bool *marked)
{
    unsigned long long first = 0, last = 0;
    for (size_t i = 0, n; i < j->nentries; i += n) {
        bool calls = true, ways = true;
        const struct trace_entry *e = &j->entries[i];
        n = trace_job_run(j, i);
        for (size_t k = 1; k < n; k++) {
            calls &= same_call(e, e + k);
            ways &= same_way(e, e + k);
        }
        const unsigned long long number = e->record->number;
        if (!calls || !ways) {
            /* What came before is no longer on record. */
            printf("Ranks diverged at %soperation %llu: ",
                   first || number == 1 ? "" : "or before ", number);
            tell_parties(j, i, n, !calls, marked);
            return true;
        }
        if (n == 1)
            continue;
        first = first ? first : number;
        last = number;
    }
    if (first)
        printf("From operation %llu to %llu all ranks on record agree.\n",
               first, last);
    else
        puts("No operation is on record of more than one rank.");
    return false;
}

static void tell_clocks(const struct trace_job *j)
{
    for (int m = 1; m < j->nmachines; m++) {
        int f = 0;
        while (j->machine[f] != m)
            f++;
        const struct trace_clock *c = &j->clocks[m];
        printf("The clock of host %s is aligned with that of host %s ",
               j->files[f]->header.host, j->files[0]->header.host);
        if (c->matched)
            printf("by their operations, to within %.3g us.\n",
                   1e-3 * c->doubt_ns);
        else
            puts("by the dates of both: no operation was found that waits for "
                 "all.");
    }
}

bool trace_verdict(const struct trace_job *j)
{
    const struct record_header *h = &j->files[0]->header;
    bool *marked = calloc((size_t)j->n, sizeof(*marked));
    printf("Job %016llx of %d rank%s, %d on record:\n",
           (unsigned long long)h->job, h->nranks, h->nranks == 1 ? "" : "s",
           j->n);
    for (int f = 0; f < j->n; f++)
        tell_state(j, f);
    tell_missing(j);
    bool diverged = false;
    if (marked) {
        tell_late(j, marked);
        diverged = tell_divergence(j, marked);
    }
    trace_messages(j);
    tell_clocks(j);
    free(marked);
    return diverged;
}
