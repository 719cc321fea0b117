/* SPDX-License-Identifier: MIT */
/* What no collective on this machine can beat, measured on it by the timing
 * rule of measure.h, right before each size:
 *
 *   exchange  one cache line from every rank that has something to give to
 *             every rank that waits for it, and no more
 *   traffic   the loads and stores of the vectors that cannot be avoided,
 *             without any word between the ranks
 *   link      what must leave each of several hosts, in one TCP stream
 *
 * The largest counts. README.md says exactly what is loaded and stored.
 */
#ifndef LIMIT_H
#define LIMIT_H

#include "bench.h"
#include "job.h"
#include "measure.h"
#include "shared.h"

/* Maps what is needed for vectors of up to max_bytes, and measures what does
 * not depend on size. Every rank calls it. */
struct limit *limit_create(const struct measure *m, size_t max_bytes,
                           struct bench_limits *);
void limit_free(struct limit *);

/* seconds is 0 if nothing is known; by says what costs so much. */
enum { EXCHANGE_BYTES = 56 }; /* of a vector, beside the number in a line */

struct limit_bound {
    double seconds;
    const char *by; /* static storage */
};

/* For the size that *m is at. Every rank calls it, and gets the same. */
struct limit_bound limit_of(struct limit *, const struct measure *m);

/* The median over some repetitions of the time of the slowest rank. before and
 * after may be NULL; seconds is about how long all of it may take. */
struct limit_trial {
    const struct measure *m;
    void (*before)(void *context, long iteration); /* before the barrier */
    void (*timed)(void *context);
    void (*after)(void *context);
    void *context;
};
double limit_time(const struct limit_trial *, double seconds, long fewest,
                  long most);

/* exchange.c: the first of the bounds. *sequence counts its rounds. */
double exchange_seconds(const struct shared *, const struct measure *m,
                        uint64_t *sequence);

/* moves.c: the second, and in which way of those tried. */
struct limit_bound moves_seconds(const struct shared *,
                                 const struct measure *m);

/* crossing.c: bytes that must leave or reach the host where they are most, of a
 * vector of `bytes`. */
double crossing_bytes(const struct shape *, const struct job *, size_t bytes);

/* link.c: bytes a second of one TCP stream from rank 0 to the first rank on
 * another host; 0 if all share one, or no connection came about. */
double link_bandwidth(const struct job *);

#endif
