/* SPDX-License-Identifier: MIT */
/* What grouping calls saves. */
#ifndef GROUP_H
#define GROUP_H

#include "measure.h"

/* On every rank: times as many calls as --group says in one group, and one
 * after another, in turn, each on vectors of its own; checks their results.
 * Fills result->group with medians and adds to result->wrong; equal on all
 * ranks. */
void group_run(struct measure *, struct bench_result *result);

#endif
