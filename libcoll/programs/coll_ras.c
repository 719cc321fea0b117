/* SPDX-License-Identifier: MIT */
/* coll_ras: how the jobs that run are doing, from their flight records. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "programs/ras.h"

static const char *job;
static bool as_json, as_prometheus;
static double interval = 0.2, stalled = 5;

/* clang-format off */
static const struct option_row rows[] = {
    {.name = "job", .arg = "ID", .kind = OPTION_TEXT, .out = &job,
     .help = "only this communicator: its 16 digits, or the first few of them"},
    {.name = "interval", .arg = "SECONDS", .kind = OPTION_NUMBER,
     .out = &interval, .min = 0, .max = 3600,
     .help = "between two looks, which tell progress (default 0.2); 0: one look"},
    {.name = "stalled", .arg = "SECONDS", .kind = OPTION_NUMBER,
     .out = &stalled, .min = 0, .max = 1e6,
     .help = "an operation that is older than this, while nothing moves, is "
             "stalled (default 5)"},
    {.name = "json", .kind = OPTION_FLAG, .out = &as_json,
     .help = "print JSON"},
    {.name = "prometheus", .kind = OPTION_FLAG, .out = &as_prometheus,
     .help = "print metrics for Prometheus, for node_exporter's textfile "
             "collector, say"},
};
/* clang-format on */

static const struct program program = {
    .name = "coll_ras",
    .usage = "coll_ras [FILE|DIR...] [OPTION...]",
    .summary = "Looks into the jobs that run: their communicators, the "
               "operations that ranks are\nin, who keeps the others waiting. "
               "The jobs notice nothing of it.",
    .options = rows,
    .noptions = sizeof(rows) / sizeof(rows[0]),
    .epilogue = "FILE, DIR: flight records, or folders of them (default: where "
                "this user's jobs\nkeep them, see COLL_RECORDER). Status: 0, 1 "
                "if a communicator is stalled, broken\nor failed, 2 if a file "
                "could not be read or the command line is wrong.",
};

static void wait_for(double seconds)
{
    struct timespec left = {(time_t)seconds,
                            (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

int main(int argc, char **argv)
{
    int noperands, n = 0;
    struct trace_set before = {.nfiles = 0}, now;
    options_parse(&program, argc, argv, &noperands, false);
    trace_set_check(&program, job);
    if (as_json && as_prometheus)
        options_die(&program, "--prometheus: found it with --json, valid is "
                              "one of the two");
    if (interval > 0) {
        trace_set_read(&before, &program, argv + 1, noperands, job, true);
        wait_for(interval);
    }
    trace_set_read(&now, &program, argv + 1, noperands, job, false);
    struct ras_comm *comms = calloc((size_t)now.njobs + 1, sizeof(*comms));
    bool wrong = false;
    if (!comms)
        options_die(&program, "no memory for the records");
    for (int i = 0; i < now.njobs; i++) {
        if (!ras_runs(&now.jobs[i]))
            continue;
        if (!ras_look(&comms[n], &now.jobs[i], &before, interval, stalled))
            options_die(&program, "no memory for the records");
        wrong |= ras_is_wrong(&comms[n++]);
    }
    const int unread = now.wrong;
    if (as_json)
        ras_json(comms, n, interval);
    else if (as_prometheus)
        ras_prometheus(comms, n);
    else if (n || !unread)
        ras_text(comms, n);
    for (int i = 0; i < n; i++)
        ras_free(&comms[i]);
    free(comms);
    trace_set_free(&before);
    trace_set_free(&now);
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_ras");
        return 2;
    }
    return wrong ? 1 : unread ? 2 : 0;
}
