/* SPDX-License-Identifier: MIT */
/* How much of an operation hides behind a computation. */
#ifndef OVERLAP_H
#define OVERLAP_H

#include "measure.h"

/* On every rank: times the operation alone (request and wait), arithmetic alone
 * that takes as long, and the arithmetic between request and wait. Fills
 * result->overlap, with medians, equal on all ranks. */
void overlap_run(struct measure *, struct bench_result *result);

#endif
