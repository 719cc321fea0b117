/* SPDX-License-Identifier: MIT */
/* Telling an agent what to run: environment, arguments, ranks. */
#ifndef PROGRAMS_DESCRIBE_H
#define PROGRAMS_DESCRIBE_H

#include "programs/job.h"

/* Queues the whole description for the agent of one host, up to the start.
 * root is the value of COLL_ROOT, key that of COLL_JOB_KEY. */
void describe_job(struct link *, const struct job_options *, int host,
                  const char *root, const char *key);

/* 32 random hex digits; false if the kernel has no random numbers. */
bool describe_make_key(char key[33]);

#endif
