/* SPDX-License-Identifier: MIT */
#include "programs/report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MAX_LINES = 16 }; /* more failures than that are only counted */

bool rank_failed(const struct rank_result *r)
{
    return r->state == RANK_LOST || (r->state == RANK_EXITED && r->status);
}

/* Why ranks end that fail, what counts most first. */
enum end { END_OWN, END_TOLD, END_OURS, END_FINE };

static enum end end_of(const struct rank_result *r)
{
    return !rank_failed(r)  ? END_FINE
           : r->ended_by_us ? END_OURS
           : r->told        ? END_TOLD
                            : END_OWN;
}

/* The earliest such end after `order`; -1 if none. */
static int next_failure(const struct rank_result *ranks, int nranks, int order,
                        enum end end)
{
    int next = -1;
    for (int r = 0; r < nranks; r++)
        if (end_of(&ranks[r]) == end && ranks[r].order > order
            && (next < 0 || ranks[r].order < ranks[next].order))
            next = r;
    return next;
}

static int first_failure(const struct rank_result *ranks, int nranks)
{
    int first = -1;
    for (int end = END_OWN; first < 0 && end < END_FINE; end++)
        first = next_failure(ranks, nranks, 0, (enum end)end);
    return first;
}

static void print_failure(const char *name, const struct hosts *hosts,
                          const struct rank_result *ranks, int r)
{
    const char *host = hosts->names[hosts->host_of[r]];
    const int status = ranks[r].status;
    fprintf(stderr, "%s: rank %d on %s (pid %d) ", name, r, host,
            (int)ranks[r].pid);
    if (ranks[r].state == RANK_LOST)
        fprintf(stderr, "was lost: its host no longer answers\n");
    else if (WIFSIGNALED(status))
        fprintf(stderr, "was killed by signal %d (%s)%s\n", WTERMSIG(status),
                strsignal(WTERMSIG(status)),
                WCOREDUMP(status) ? ", core dumped" : "");
    else
        fprintf(stderr, "exited with status %d\n", WEXITSTATUS(status));
}

/* "rank 3", "ranks 0, 2-5": those with such an end. */
static void print_ranks(const struct rank_result *ranks, int nranks,
                        enum end end)
{
    int count = 0;
    for (int r = 0; r < nranks; r++)
        count += end_of(&ranks[r]) == end;
    const char *separator = count == 1 ? "rank " : "ranks ";
    for (int r = 0; r < nranks; r++) {
        int last = r;
        if (end_of(&ranks[r]) != end)
            continue;
        while (last + 1 < nranks && end_of(&ranks[last + 1]) == end)
            last++;
        fprintf(stderr, "%s%d", separator, r);
        if (last > r)
            fprintf(stderr, "%s%d", last > r + 1 ? "-" : ", ", last);
        separator = ", ";
        r = last;
    }
}

void report(const char *name, const struct hosts *hosts,
            const struct rank_result *ranks, int interrupted_by, int passed_on)
{
    const int nranks = hosts->nranks;
    const bool own = next_failure(ranks, nranks, 0, END_OWN) >= 0;
    const int by = interrupted_by || own ? interrupted_by : passed_on;
    const enum end end = own ? END_OWN : END_TOLD;
    int lines = 0, more = 0, r, order = 0;
    while ((r = next_failure(ranks, nranks, order, end)) >= 0) {
        order = ranks[r].order;
        if (lines++ < MAX_LINES)
            print_failure(name, hosts, ranks, r);
        else
            more++;
    }
    if (more)
        fprintf(stderr, "%s: %d more ranks failed\n", name, more);
    if (own && next_failure(ranks, nranks, 0, END_TOLD) >= 0) {
        fprintf(stderr, "%s: ", name);
        print_ranks(ranks, nranks, END_TOLD);
        fputs(": failed because of it\n", stderr);
    }
    if (next_failure(ranks, nranks, 0, END_OURS) < 0)
        return;
    fprintf(stderr, "%s: ", name);
    print_ranks(ranks, nranks, END_OURS);
    if (by)
        fprintf(stderr, ": ended by signal %d (%s), which %s passed on\n", by,
                strsignal(by), name);
    else
        fprintf(stderr, ": ended by %s because of it\n", name);
}

int report_status(const struct rank_result *ranks, int nranks)
{
    const int r = first_failure(ranks, nranks);
    if (r < 0)
        return 0;
    if (ranks[r].state == RANK_LOST)
        return 1;
    return WIFSIGNALED(ranks[r].status) ? 128 + WTERMSIG(ranks[r].status)
                                        : WEXITSTATUS(ranks[r].status);
}
