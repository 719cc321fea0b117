/* SPDX-License-Identifier: MIT */
/* What coll_tune found: a table for people, JSON, a plot. Rank 0 only. */
#ifndef PROGRAMS_TUNE_REPORT_H
#define PROGRAMS_TUNE_REPORT_H

#include "programs/tune_run.h"

struct tune_report {
    const struct tune_result *results;
    int n;
    int nranks;
    const char *dtype;
    const char *note;   /* why nothing was learned; NULL: something was */
    const char *stored; /* the file; NULL: none */
    const char *subtitle, *marked; /* the plot's: whose times, what has rings */
};

void tune_table_head(int nranks);
void tune_table_row(const struct tune_result *);
/* What the model had chosen, how far off it was, and what was left out. */
void tune_table_foot(const struct tune_report *);

/* The files appear whole. False, after a line on stderr. */
bool tune_write_json(const struct tune_report *, const char *path);
bool tune_write_plot(const struct tune_report *, const char *path);

#endif
