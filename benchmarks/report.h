/* SPDX-License-Identifier: MIT */
/* What rank 0 tells: a table while measuring, files afterwards. Files appear
 * whole, by rename. Functions that return false have put a sentence without
 * newline into error. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "bench.h"
#include "job.h"

struct report_error {
    char text[512];
};

/* table.c: lines with # say what was measured and how; then a row per size of
 * each collective. */
void table_head(const struct bench *, const struct job *);
void table_collective(const struct bench *, enum collective);
void table_row(const struct bench *, const struct job *,
               const struct bench_result *);
void table_foot(const struct bench *);

/* json.c */
bool json_write(const struct bench *, const struct job *,
                struct report_error *error);

/* csv.c */
bool csv_write(const struct bench *, const struct job *,
               struct report_error *error);

/* plot.c: time over size, both logarithmic, as a PNG image. */
bool plot_write(const struct bench *, const struct job *,
                struct report_error *error);

/* baseline.c: an earlier --json file. */
struct baseline;
/* NULL: *error says why. The caller ends it with baseline_free(). */
struct baseline *baseline_read(const char *path, struct report_error *error);
void baseline_free(struct baseline *);
int baseline_nranks(const struct baseline *);
/* The p50 of the same measurement in seconds; 0 if the file has none. */
double baseline_p50(const struct baseline *, const struct bench *,
                    const struct bench_result *);

#endif
