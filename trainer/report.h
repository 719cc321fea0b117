/* SPDX-License-Identifier: MIT */
/* What the user sees of a run: the log, the progress bar, the curves. Only
 * rank 0 has one. */
#ifndef TRAINER_REPORT_H
#define TRAINER_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "breakdown.h"
#include "dist/tickets.h"
#include "stragglers.h"

struct report_point {
    long step, epoch; /* from 1 */
    double loss, accuracy, lr, images_per_s, comm_share, step_ms;
    double test_loss, test_accuracy; /* NAN unless evaluated after the step */
    int slowest;                     /* rank; -1: there is but one */
    double late;         /* its seconds beyond those of the others' mean */
    const double *parts; /* seconds, as of a breakdown; NULL: not known */
};

struct report_final {
    double accuracy, loss; /* NAN: there are no test images */
    double images_per_s, comm_share, seconds;
    struct breakdown_sums time;
    const struct stragglers *stragglers; /* NULL: not known */
    bool has_staleness;
    uint64_t staleness[STALENESS_MOST]; /* as of struct strategy_ops */
};

struct report {
    const char *log_path;
    FILE *log;     /* or NULL */
    int log_errno; /* of the first line that could not be written */
    bool bar;  /* draw a progress bar on stderr */
    long nsteps, nepochs, first_step;
    double started, drawn; /* seconds; of the bar */
    struct report_point *points;
    size_t npoints, room;
};

/* log_path may be NULL. A run that resumes after first_step steps keeps the
 * log's lines up to there. -1 with one line in error. */
int report_open(struct report *, const char *log_path, long first_step,
                char *error, size_t error_bytes);
void report_step(struct report *, const struct report_point *);
/* Ends the log with the final object. */
void report_final(struct report *, const struct report_final *);
/* Loss, accuracy and learning rate over the steps. */
int report_plot(const struct report *, const char *path, const char *title,
                char *error, size_t error_bytes);
/* -1 with one line in error if the log could not be written. */
int report_close(struct report *, char *error, size_t error_bytes);

#endif
