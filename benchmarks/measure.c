/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without -n a size gets about this long, within these bounds. */
enum { FEWEST = 10, MOST = 5000 };
static const double size_seconds = 0.25;

static void *pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    void *x = NULL;
    if (posix_memalign(&x, page, whole ? whole : page) != 0)
        return NULL;
    memset(x, 0xff, whole);
    return x;
}

/* Twice the last-level cache, or a generous guess where it is unknown. */
static size_t flush_bytes(void)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return cache > 0 ? 2 * (size_t)cache : (size_t)64 << 20;
}

void measure_create(struct measure *m, const struct job *job,
                    const struct bench *bench, size_t max_bytes)
{
    const struct bench_options *const o = &bench->options;
    *m = (struct measure){.job = job, .bench = bench};
    inputs_create(&m->inputs, o->dtype, o->op, job->rank, job->nranks);
    m->send = pages(max_bytes);
    m->recv = o->in_place ? m->send : pages(max_bytes);
    if (o->cold) {
        m->big_bytes = flush_bytes();
        m->big = pages(m->big_bytes);
    }
    if (!m->send || !m->recv || (o->cold && !m->big))
        job_no_memory(2 * max_bytes + m->big_bytes);
}

void measure_free(struct measure *m)
{
    inputs_free(&m->inputs);
    if (m->recv != m->send)
        free(m->recv);
    free(m->send);
    free(m->big);
}

void measure_flush(const struct measure *m)
{
    volatile unsigned char *const x = m->big;
    for (size_t i = 0; i < m->big_bytes; i += 64)
        x[i]++;
}

/* Seconds on this rank. */
static double iterate(struct measure *m, size_t count, long iteration,
                      bool check, unsigned long long *wrong)
{
    const struct bench_options *const o = &m->bench->options;
    inputs_write(&m->inputs, m->send, count, iteration);
    measure_flush(m);
    job_barrier(m->job);
    const double start = job_clock();
    const coll_status status = coll_allreduce(m->send, m->recv, count, o->dtype,
                                              o->op, m->job->comm, NULL);
    const double seconds = job_clock() - start;
    job_check(m->job, status);
    inputs_read(m->recv, count * m->inputs.elem_bytes);
    if (check)
        *wrong += inputs_wrong(&m->inputs, m->recv, count, iteration);
    return seconds;
}

/* Warms up, and decides from the time that took how often to measure. */
static long prepare(struct measure *m, size_t count)
{
    const struct bench_options *const o = &m->bench->options;
    const double start = job_clock();
    for (long i = 0; i < o->warmup; i++)
        iterate(m, count, i, false, NULL);
    if (o->iterations > 0)
        return o->iterations;
    /* One more alone: the first ones may have set things up. */
    const double last = job_clock();
    iterate(m, count, o->warmup, false, NULL);
    const double one = job_clock() - last, all = job_clock() - start;
    double turn = fmin(one, all / (double)(o->warmup + 1));
    job_max(m->job, &turn, 1);
    return (long)fmin(fmax(size_seconds / turn, FEWEST), MOST);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest time that a share p of all does not exceed. */
static double percentile(const double *sorted, long n, double p)
{
    const long rank = (long)ceil(p * (double)n);
    return sorted[rank < 1 ? 0 : rank - 1];
}

void measure_run(struct measure *m, size_t count, struct bench_result *result)
{
    const bool every = m->bench->options.check_every;
    unsigned long long wrong = 0;
    memset(m->recv, 0xff, count * m->inputs.elem_bytes);
    const long n = prepare(m, count);
    double *const seconds = job_alloc((size_t)n * sizeof *seconds);
    for (long i = 0; i < n; i++)
        seconds[i] =
            iterate(m, count, i, every || i == 0 || i == n - 1, &wrong);
    job_max(m->job, seconds, (size_t)n);
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    result->count = count;
    result->bytes = count * m->inputs.elem_bytes;
    result->iterations = n;
    result->min = seconds[0];
    result->p50 = percentile(seconds, n, 0.5);
    result->p99 = percentile(seconds, n, 0.99);
    result->max = seconds[n - 1];
    result->wrong = job_sum(m->job, wrong);
    free(seconds);
}
