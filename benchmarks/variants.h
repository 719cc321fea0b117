/* SPDX-License-Identifier: MIT */
/* Several ways to do the same, in turn, so that what else the machine does
 * meets all alike. By the timing rule of measure.h. */
#ifndef VARIANTS_H
#define VARIANTS_H

#include "measure.h"

struct variants {
    int n;     /* ways */
    int calls; /* of each way in one iteration, each on vectors of its own */
    void (*play)(struct measure *, int way, void *context); /* is timed */
    void *context;
};

/* Every rank calls it. p50[n] in seconds, equal on all; *result is of the size
 * under way, as measure_run() left it, and its wrong elements become more. */
void variants_run(struct measure *, const struct variants *, double *p50,
                  struct bench_result *result);

#endif
