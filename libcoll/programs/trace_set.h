/* SPDX-License-Identifier: MIT */
/* The flight records that a command line names, by communicator. */
#ifndef PROGRAMS_TRACE_SET_H
#define PROGRAMS_TRACE_SET_H

#include "programs/options.h"
#include "programs/trace_job.h"

struct trace_set {
    struct trace_file *files;
    int nfiles, room;
    struct trace_job *jobs; /* the oldest first */
    int njobs;
    int wrong; /* files that could not be read; each was a line on stderr */
};

/* Ends the program unless `job`, which --job gave, can be the first digits of a
 * communicator's number; NULL is any. */
void trace_set_check(const struct program *, const char *job);

/* Reads n paths, records or folders of them; n = 0: where this user's jobs keep
 * them. What ends or begins meanwhile is left out. quiet: without a line for
 * what cannot be read. Ends the program if there is no memory. To be freed. */
void trace_set_read(struct trace_set *, const struct program *, char **paths,
                    int n, const char *job, bool quiet);
void trace_set_free(struct trace_set *);

#endif
