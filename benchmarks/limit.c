/* SPDX-License-Identifier: MIT */
#include "limit.h"

#include <math.h>
#include <stdlib.h>

struct limit {
    struct shared shared;
    uint64_t sequence; /* of the exchanges; the same on every rank */
};

struct limit *limit_create(const struct measure *m, size_t max_bytes,
                           struct bench_limits *limits)
{
    struct limit *const l = job_alloc(sizeof *l);
    *limits = (struct bench_limits){0};
    limits->node =
        shared_map(&l->shared, m->job, max_bytes, m->shape.in_place ? 1 : 2);
    limits->memory = l->shared.vectors != NULL;
    limits->yields = l->shared.yields;
    if (m->job->nhosts > 1)
        limits->link_bytes_per_second = link_bandwidth(m->job);
    return l;
}

void limit_free(struct limit *l)
{
    shared_unmap(&l->shared);
    free(l);
}

static double once(const struct limit_trial *t, long iteration)
{
    if (t->before)
        t->before(t->context, iteration);
    measure_flush(t->m);
    job_barrier(t->m->job);
    const double start = job_clock();
    t->timed(t->context);
    const double seconds = job_clock() - start;
    if (t->after)
        t->after(t->context);
    return seconds;
}

double limit_time(const struct limit_trial *t, double seconds, long fewest,
                  long most)
{
    const struct job *const job = t->m->job;
    const long asked = t->m->bench->options.iterations;
    const double start = job_clock();
    once(t, 0);
    once(t, 1);
    double turn = (job_clock() - start) / 2;
    job_max(job, &turn, 1);
    long n = (long)fmin(fmax(seconds / turn, (double)fewest), (double)most);
    if (asked > 0 && asked < n)
        n = asked;
    double *const times = job_alloc((size_t)n * sizeof *times);
    for (long i = 0; i < n; i++)
        times[i] = once(t, i);
    job_max(job, times, (size_t)n);
    const double p50 = measure_percentile(times, n, 0.5);
    free(times);
    return p50;
}

static struct limit_bound larger(struct limit_bound a, struct limit_bound b)
{
    return a.seconds >= b.seconds ? a : b;
}

/* What two looks at the clock cost, as both times contain it. */
static double clock_seconds(const struct job *job)
{
    double least = 1;
    for (int i = 0; i < 100; i++) {
        const double start = job_clock();
        least = fmin(least, job_clock() - start);
    }
    job_max(job, &least, 1); /* the same on all ranks */
    return least;
}

/* Nobody can read a vector before it has heard that it is there, unless the
 * line that says so has room for it. */
static struct limit_bound node_bound(struct limit *l, const struct measure *m)
{
    const struct bench_limits *const has = &m->bench->limits;
    struct limit_bound bound = {0, "unknown"}, traffic = {0, "unknown"};
    if (has->node)
        bound = (struct limit_bound){
            exchange_seconds(&l->shared, m, &l->sequence), "exchange"};
    if (has->memory && collective_has_vectors(m->shape.collective))
        traffic = moves_seconds(&l->shared, m);
    if (measure_bytes(m) <= EXCHANGE_BYTES && has->node)
        return bound;
    if (traffic.seconds > 0)
        bound = (struct limit_bound){
            bound.seconds + fmax(traffic.seconds - clock_seconds(m->job), 0),
            traffic.by};
    return bound;
}

struct limit_bound limit_of(struct limit *l, const struct measure *m)
{
    const struct bench_limits *const has = &m->bench->limits;
    struct limit_bound bound = node_bound(l, m);
    if (has->link_bytes_per_second > 0)
        bound =
            larger(bound, (struct limit_bound){crossing_bytes(&m->shape, m->job,
                                                              measure_bytes(m))
                                                   / has->link_bytes_per_second,
                                               "link"});
    return bound;
}
