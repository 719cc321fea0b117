/* SPDX-License-Identifier: MIT */
/* Ordinary stores or non-temporal ones?
 *
 * An ordinary store has to take the line away from whoever has it in a cache.
 * Between cores of one last-level cache that is cheap, and the line then is
 * where its owner will read it. Between caches it can cost ten times what a
 * store past the caches does. Nothing that a machine says of itself tells, so
 * the first and the last rank of the host try: the last reads an area, the
 * first stores into it in both ways.
 */
#include "node/stores.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "node/lines.h"

enum { TRIALS = 12, AREA = 32768 };
static const double patience_seconds = 0.02;

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for a step of a rank, but not for long: it may not even be attached. */
static bool await(const struct node *n, int place, uint32_t step)
{
    struct node_line *line = &n->peers[place].region->phase;
    const double start = clock_now();
    for (unsigned i = 1; (uint32_t)atomic_load_explicit(&line->word,
                                                        memory_order_acquire)
                         < step;
         i++)
        if (i % 256 == 0) {
            sched_yield();
            if (clock_now() - start > patience_seconds)
                return false;
        }
    return true;
}

static double fastest(const double *x)
{
    double best = x[0];
    for (int i = 1; i < TRIALS; i++)
        best = x[i] < best ? x[i] : best;
    return best;
}

/* The area's owner: reads it, so that it is in its cache. */
static void own(struct node *n)
{
    struct node_region *mine = n->peers[n->me].region;
    volatile unsigned char sink = 0;
    for (uint32_t t = 0; t < 2 * TRIALS; t++) {
        for (int i = 0; i < AREA; i += 64)
            sink = (unsigned char)(sink + mine->in[0][i]);
        node_mark(&mine->phase, 0, t + 1);
        if (!await(n, 0, t + 1))
            return;
    }
}

static bool store(struct node *n)
{
    struct node_region *mine = n->peers[0].region;
    double seconds[2][TRIALS];
    for (uint32_t t = 0; t < 2 * TRIALS; t++) {
        void *dst = n->peers[n->n - 1].region->in[0];
        if (!await(n, n->n - 1, t + 1))
            return false;
        const double start = clock_now();
        op_copy(&dst, 1, mine->out[0], AREA, t % 2);
        seconds[t % 2][t / 2] = clock_now() - start;
        node_mark(&mine->phase, 0, t + 1);
    }
    return fastest(seconds[1]) < fastest(seconds[0]);
}

bool stores_measure(struct node *n)
{
    if (n->me == n->n - 1)
        own(n);
    return n->me == 0 && store(n);
}
