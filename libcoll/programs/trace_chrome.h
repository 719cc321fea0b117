/* SPDX-License-Identifier: MIT */
/* Jobs as a file that trace viewers show: Chrome's trace event format ("Trace
 * Event Format", The Chromium Project, 2016), which Perfetto and
 * chrome://tracing read. A group for each job, in it a row for each rank. */
#ifndef PROGRAMS_TRACE_CHROME_H
#define PROGRAMS_TRACE_CHROME_H

#include "programs/trace_job.h"

/* The file appears whole. False: error has a line. */
bool trace_chrome_write(const struct trace_job *jobs, int n, const char *path,
                        char error[TRACE_ERROR]);

#endif
