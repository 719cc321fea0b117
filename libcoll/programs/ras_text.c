/* SPDX-License-Identifier: MIT */
/* For people: a table of the ranks, and below it in words what is wrong. */
#include <stdio.h>

#include "programs/ras.h"

enum { SPAN = 32, TOLD = 8 };

static const char *span(double seconds, char text[SPAN])
{
    if (seconds < 1e-3)
        snprintf(text, SPAN, "%.3g us", 1e6 * seconds);
    else if (seconds < 1)
        snprintf(text, SPAN, "%.3g ms", 1e3 * seconds);
    else if (seconds < 1e3)
        snprintf(text, SPAN, "%.3g s", seconds);
    else
        snprintf(text, SPAN, "%.0f s", seconds);
    return text;
}

static void tell_rank(const struct ras_comm *c, int i)
{
    char call[TRACE_CALL], since[SPAN], late[SPAN];
    const struct ras_rank *r = &c->ranks[i];
    const struct record_header *h = &r->file->header;
    printf("  %4d  %-12.12s %8d  %-9s  %10s  ", h->rank, h->host, h->pid,
           ras_process_names[r->process],
           c->counted ? span(r->late, late) : "-");
    if (!r->last)
        puts("has begun no operation");
    else
        printf("%s %llu, %s, %s %s ago\n",
               ras_is_in(r)          ? "in"
               : r->last->status < 0 ? "failed in"
                                     : "ended",
               (unsigned long long)r->last->number,
               trace_call(r->file, r->last, call),
               ras_is_in(r) ? "begun" : "over", span(r->seconds, since));
}

/* Who has not come to the last operation, which others are in. */
static void tell_late(const struct ras_comm *c)
{
    char since[SPAN];
    int late = 0, in = 0;
    for (int i = 0; i < c->n; i++) {
        late += c->ranks[i].behind > 0;
        in += ras_is_in(&c->ranks[i]);
    }
    for (int i = 0, told = 0; i < c->n && in && told < TOLD; i++) {
        const struct ras_rank *r = &c->ranks[i];
        if (!r->behind)
            continue;
        printf("Rank %d has not come to operation %llu", r->file->header.rank,
               (unsigned long long)c->operation);
        if (r->behind > 1)
            printf(" and is %llu behind", (unsigned long long)r->behind);
        if (ras_is_in(r))
            puts(".");
        else if (!r->last)
            printf("; its process is %s.\n", ras_process_names[r->process]);
        else
            printf(": it has been in none for %s, and its process is %s.\n",
                   span(r->seconds, since), ras_process_names[r->process]);
        told++;
    }
    if (late > TOLD && in)
        printf("%d more ranks have not come either.\n", late - TOLD);
    if (in && !late && in < c->n)
        printf("%d of %d ranks are still in operation %llu.\n", in, c->n,
               (unsigned long long)c->operation);
    if (in && !late && in == c->n)
        printf("All ranks on record have come to operation %llu.\n",
               (unsigned long long)c->operation);
}

/* What all others wait for one is worth a word from 5 % of the time between
 * operations on; of some microseconds it says nothing, as no two ranks leave an
 * operation at the same time. */
static void tell_slowest(const struct ras_comm *c)
{
    char late[SPAN];
    const struct ras_rank *r = &c->ranks[c->slowest];
    double next = 0;
    for (int i = 0; i < c->n; i++)
        if (i != c->slowest && c->ranks[i].late > next)
            next = c->ranks[i].late;
    const double alone = r->late - next;
    if (c->n > 1 && c->period > 0 && alone >= 0.05 * c->period && alone >= 1e-4)
        printf("Rank %d is the slowest: the others wait %s for it alone, %.0f "
               "%% of the time between operations (mean of %zu).\n",
               r->file->header.rank, span(alone, late), 100 * alone / c->period,
               c->counted);
}

static void tell_failures(const struct ras_comm *c)
{
    int told = 0;
    for (int i = 0; i < c->n && told < TOLD; i++) {
        const struct record_header *h = &c->ranks[i].file->header;
        if (!h->failed)
            continue;
        printf("Rank %d failed: %s\n", h->rank, h->sentence);
        told++;
    }
    for (int i = 0; i < c->n && told < TOLD; i++) {
        const struct ras_rank *r = &c->ranks[i];
        if (r->process != RAS_GONE || r->file->header.failed)
            continue;
        printf("Rank %d is gone: process %d ended without leaving in order.\n",
               r->file->header.rank, r->file->header.pid);
        told++;
    }
}

static void tell_comm(const struct ras_comm *c)
{
    char since[SPAN];
    printf("Communicator %016llx of %d rank%s, %d on record: %s",
           (unsigned long long)c->job->files[0]->header.job, c->nranks,
           c->nranks == 1 ? "" : "s", c->n, ras_state_names[c->state]);
    if (c->rate > 0)
        printf(", %.3g operations a second", c->rate);
    if (c->pending > 0)
        printf(", the oldest begun %s ago", span(c->pending, since));
    puts("\n  rank  host          process  state      begins late  operation");
    for (int i = 0; i < c->n; i++)
        tell_rank(c, i);
    tell_failures(c);
    tell_late(c);
    trace_messages(c->job);
    tell_slowest(c);
}

void ras_text(const struct ras_comm *comms, int n)
{
    for (int i = 0; i < n; i++) {
        if (i)
            puts("");
        tell_comm(&comms[i]);
    }
    if (!n)
        puts("No job runs.");
}
