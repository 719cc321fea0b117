/* SPDX-License-Identifier: MIT */
#include "variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WARMUP = 3, FEWEST = 10, MOST = 5000 };
static const double way_seconds = 0.25;

/* Seconds on this rank. */
static double iterate(struct measure *m, const struct variants *v, int way,
                      long iteration)
{
    for (int i = 0; i < v->calls; i++) {
        measure_use(m, i);
        inputs_write(&m->inputs, m->send, m->count, iteration * v->calls + i);
    }
    measure_together(m);
    const double start = job_clock();
    v->play(m, way, v->context);
    const double seconds = job_clock() - start;
    for (int i = 0; i < v->calls; i++) {
        measure_use(m, i);
        measure_end(m);
    }
    return seconds;
}

static unsigned long long wrong_in(struct measure *m, int calls, long iteration)
{
    unsigned long long wrong = 0;
    for (int i = 0; i < calls; i++) {
        measure_use(m, i);
        wrong +=
            inputs_wrong(&m->inputs, m->recv, m->count, iteration * calls + i);
    }
    return wrong;
}

static long iterations(const struct measure *m, const struct variants *v,
                       const struct bench_result *result)
{
    const long asked = m->bench->options.iterations;
    const double turn = fmax(result->p50 * v->calls, 1e-9);
    return asked > 0 ? asked
                     : (long)fmin(fmax(way_seconds / turn, FEWEST), MOST);
}

void variants_run(struct measure *m, const struct variants *v, double *p50,
                  struct bench_result *result)
{
    const bool every = m->bench->options.check_every;
    const long n = iterations(m, v, result);
    double *const seconds = job_alloc((size_t)(n * v->n) * sizeof *seconds);
    unsigned long long wrong = 0;
    memset(m->to, INPUTS_UNTOUCHED, (size_t)v->calls * m->stride);
    for (long i = -WARMUP; i < n; i++)
        for (int k = 0; k < v->n; k++) {
            const int way = (int)((i + WARMUP + k) % v->n);
            /* Inputs of its own, so that nothing is right that was left there
             * by another way. */
            const long turn = (i + WARMUP) * v->n + k;
            const double one = iterate(m, v, way, turn);
            if (i < 0)
                continue;
            seconds[way * n + i] = one;
            if (every || i == 0 || i == n - 1)
                wrong += wrong_in(m, v->calls, turn);
        }
    measure_use(m, 0);
    job_max(m->job, seconds, (size_t)(n * v->n));
    for (int way = 0; way < v->n; way++)
        p50[way] = measure_percentile(seconds + way * n, n, 0.5);
    result->wrong += job_sum(m->job, wrong);
    free(seconds);
}
