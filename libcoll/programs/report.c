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

/* The earliest end after `order`, of the kind asked for; -1 if none. */
static int next_failure(const struct rank_result *ranks, int nranks, int order,
                        bool ended_by_us)
{
    int next = -1;
    for (int r = 0; r < nranks; r++)
        if (rank_failed(&ranks[r]) && ranks[r].order > order
            && ranks[r].ended_by_us == ended_by_us
            && (next < 0 || ranks[r].order < ranks[next].order))
            next = r;
    return next;
}

static int first_failure(const struct rank_result *ranks, int nranks)
{
    const int own = next_failure(ranks, nranks, 0, false);
    return own >= 0 ? own : next_failure(ranks, nranks, 0, true);
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

/* "rank 3", "ranks 0, 2-5": those that collrun ended. */
static void print_ended(const struct rank_result *ranks, int nranks)
{
    int count = 0;
    for (int r = 0; r < nranks; r++)
        count += ranks[r].ended_by_us;
    const char *separator = count == 1 ? "rank " : "ranks ";
    for (int r = 0; r < nranks; r++) {
        int last = r;
        if (!ranks[r].ended_by_us)
            continue;
        while (last + 1 < nranks && ranks[last + 1].ended_by_us)
            last++;
        fprintf(stderr, "%s%d", separator, r);
        if (last > r)
            fprintf(stderr, "%s%d", last > r + 1 ? "-" : ", ", last);
        separator = ", ";
        r = last;
    }
}

static bool any_ended(const struct rank_result *ranks, int nranks)
{
    for (int r = 0; r < nranks; r++)
        if (ranks[r].ended_by_us)
            return true;
    return false;
}

void report(const char *name, const struct hosts *hosts,
            const struct rank_result *ranks, int interrupted_by)
{
    const int nranks = hosts->nranks;
    int lines = 0, more = 0, r, order = 0;
    while ((r = next_failure(ranks, nranks, order, false)) >= 0) {
        order = ranks[r].order;
        if (lines++ < MAX_LINES)
            print_failure(name, hosts, ranks, r);
        else
            more++;
    }
    if (more)
        fprintf(stderr, "%s: %d more ranks failed\n", name, more);
    if (!any_ended(ranks, nranks))
        return;
    fprintf(stderr, "%s: ", name);
    print_ended(ranks, nranks);
    if (interrupted_by)
        fprintf(stderr, ": ended by signal %d (%s), which %s passed on\n",
                interrupted_by, strsignal(interrupted_by), name);
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
