/* SPDX-License-Identifier: MIT */
/* coll_trace: what the ranks of a job did last, from their flight records. */
#include <stdio.h>

#include "programs/trace_chrome.h"
#include "programs/trace_set.h"

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

int main(int argc, char **argv)
{
    int noperands;
    char error[TRACE_ERROR];
    struct trace_set all;
    bool diverged = false;
    options_parse(&program, argc, argv, &noperands, false);
    trace_set_check(&program, job);
    const struct option_file file = {"--output", output, FILE_WRITTEN};
    options_check_files(&program, &file, 1);
    trace_set_read(&all, &program, argv + 1, noperands, job, false);
    for (int i = 0; i < all.njobs; i++) {
        if (i)
            puts("");
        diverged |= trace_verdict(&all.jobs[i]);
    }
    if (all.njobs == 0)
        puts("No job is on record.");
    if (output && all.njobs
        && !trace_chrome_write(all.jobs, all.njobs, output, error)) {
        fprintf(stderr, "coll_trace: %s\n", error);
        all.wrong++;
    }
    const int wrong = all.wrong;
    trace_set_free(&all);
    if (fflush(stdout) || ferror(stdout)) {
        perror("coll_trace");
        return 2;
    }
    return diverged ? 1 : wrong ? 2 : 0;
}
