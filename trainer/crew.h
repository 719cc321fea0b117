/* SPDX-License-Identifier: MIT */
/* The threads of a rank: they do the parts of one thing at a time, together
 * with the thread that asks. */
#ifndef TRAINER_CREW_H
#define TRAINER_CREW_H

#include <stddef.h>

struct crew;

/* nthreads, of which the caller is one. Thread i runs on processor cpus[i]
 * only, where the caller, thread 0, has gone by crew_bind(); cpus NULL: all run
 * on whichever the process may use. NULL if there is no memory, or the system
 * gives no more threads. */
struct crew *crew_create(int nthreads, const int *cpus);
void crew_free(struct crew *);
int crew_size(const struct crew *); /* 1 of NULL */

/* Lets the calling thread run on one processor only, as far as the system
 * allows it. Memory that it touches first is then near that one. */
void crew_bind(int cpu);

/* Calls part(context, i, n) for i from 0 to n - 1, each in its own thread, and
 * returns when all have. n: crew_size(). Not from within a part. */
void crew_run(struct crew *, void (*part)(void *context, int i, int n),
              void *context);

/* What is added up over images in so many parts of them, in order, has the same
 * bits for any number of threads. */
enum { CREW_PARTS = 8 };

/* What part i of n takes of so many things: returns how many, from *first. */
static inline int crew_part(int things, int i, int n, int *first)
{
    *first = (int)((long long)things * i / n);
    return (int)((long long)things * (i + 1) / n) - *first;
}

/* The same of floats, in whole cache lines, so that no two threads write one.
 */
static inline size_t crew_floats(size_t floats, int i, int n, size_t *first)
{
    enum { LINE = 16 };
    const size_t lines = (floats + LINE - 1) / LINE;
    const size_t end = lines * (size_t)(i + 1) / (size_t)n * LINE;
    *first = lines * (size_t)i / (size_t)n * LINE;
    return (end < floats ? end : floats) - *first;
}

#endif
