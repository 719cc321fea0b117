/* SPDX-License-Identifier: MIT */
/* What repeatable sums cost: the modes of COLL_DETERMINISM side by side. */
#ifndef DETERMINISM_H
#define DETERMINISM_H

#include "measure.h"

/* Communicators of the job's ranks, one for each mode that --determinism names
 * and one for off; NULL if it names none. Every rank calls it, and ends it with
 * determinism_free(). */
struct determinism *determinism_create(const struct job *,
                                       const struct bench_options *);
void determinism_free(struct determinism *);

/* On every rank: the size under way in each mode, in turn; checks the results.
 * Fills result->modes with medians and adds to result->wrong; equal on all
 * ranks. */
void determinism_run(struct determinism *, struct measure *,
                     struct bench_result *result);

#endif
