/* SPDX-License-Identifier: MIT */
/* What no allreduce on this machine can beat, measured on it.
 *
 *   cache line   a rank's result needs at least one line of another core
 *   memory       each rank reads S bytes and writes S, all ranks of a host at
 *                once
 *   link         of each host's links, 2 (h - 1) / h S in each direction, for
 *                h hosts; ranks of one host can reduce before they send
 */
#ifndef LIMIT_H
#define LIMIT_H

#include "bench.h"
#include "job.h"
#include "measure.h"

/* Measures what does not depend on size. Every rank calls it. */
void limit_measure(const struct job *, struct bench_limits *);

/* Seconds for a vector of so many bytes. Every rank calls it, and gets the
 * same; the vectors of *m are overwritten. */
double limit_of(const struct measure *m, size_t bytes);

/* link.c: bytes a second of one TCP stream from rank 0 to the first rank on
 * another host; 0 if all share one, or no connection came about. */
double link_bandwidth(const struct job *);

#endif
