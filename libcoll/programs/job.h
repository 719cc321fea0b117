/* SPDX-License-Identifier: MIT */
/* One run of a job: an agent for each host, ranks started, output, signals and
 * stdin passed on, and everything ended when it has to end. */
#ifndef PROGRAMS_JOB_H
#define PROGRAMS_JOB_H

#include <stdbool.h>

#include "programs/hosts.h"
#include "programs/remote.h"

struct job_options {
    const char *name; /* begins collrun's own lines */
    struct hosts hosts;
    struct remote remote;
    char *const *argv;
    struct option_list env; /* NAME=VALUE */
    double timeout;         /* seconds to start; 0: the default */
    bool label, keep_going, bind, verbose;
    int signals; /* signalfd with the signals to pass on */
};

struct job_end {
    int status; /* what collrun exits with */
    bool retry; /* a rank failed, and nobody asked us to stop */
};

/* Prints the report, too. */
struct job_end job_run(const struct job_options *);

#endif
