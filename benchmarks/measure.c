/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Without -n a size gets about this long, within these bounds. */
enum { FEWEST = 10, MOST = 5000 };
static const double size_seconds = 0.25;
static const double shortest_pause = 1e-4, longest_pause = 5e-3;

static void *pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    void *x = NULL;
    return posix_memalign(&x, page, whole) == 0 ? x : NULL;
}

static bool in_heap(const struct measure *m)
{
    return strcmp(m->bench->options.memory, "heap") == 0;
}

/* A vector, its pages placed by this rank's writing to them. */
static char *vector(const struct measure *m)
{
    void *x = NULL;
    if (in_heap(m))
        job_check(m->job, coll_mem_alloc(&x, m->room));
    else
        x = pages(m->room);
    if (!x)
        job_no_memory(m->room);
    return memset(x, INPUTS_UNTOUCHED, m->room);
}

static void vector_free(const struct measure *m, char *x)
{
    if (in_heap(m))
        job_check(m->job, coll_mem_free(x));
    else
        free(x);
}

/* Twice the last-level cache, or a generous guess where it is unknown. */
static size_t flush_bytes(void)
{
    const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return cache > 0 ? 2 * (size_t)cache : (size_t)64 << 20;
}

enum { LINE = 64 };

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

void measure_create(struct measure *m, const struct job *job,
                    const struct bench *bench, size_t max_bytes)
{
    const struct bench_options *const o = &bench->options;
    *m = (struct measure){
        .job = job,
        .bench = bench,
        .comm = job->comm,
        .shape = {.dtype = o->dtype,
                  .op = o->op,
                  .root = (int)o->root,
                  .rank = job->rank,
                  .nranks = job->nranks,
                  .in_place = o->in_place},
        .room =
            o->group ? (size_t)o->group * whole_lines(max_bytes) : max_bytes,
    };
    m->lengths = job_alloc((size_t)job->nranks * sizeof *m->lengths);
    m->shape.lengths = m->lengths;
    m->from = vector(m);
    m->to = o->in_place ? m->from : vector(m);
    if (!o->cold)
        return;
    m->big_bytes = flush_bytes();
    m->big = pages(m->big_bytes);
    if (!m->big)
        job_no_memory(m->big_bytes);
    memset(m->big, 0, m->big_bytes);
}

void measure_free(struct measure *m)
{
    inputs_free(&m->inputs);
    if (m->to != m->from)
        vector_free(m, m->to);
    vector_free(m, m->from);
    free(m->big);
    free(m->lengths);
}

void measure_collective(struct measure *m, enum collective collective)
{
    inputs_free(&m->inputs);
    m->shape.collective = collective;
    inputs_create(&m->inputs, &m->shape);
}

void measure_size(struct measure *m, size_t count)
{
    m->count = count;
    m->stride = whole_lines(measure_bytes(m));
    shape_lengths(&m->shape, count, m->lengths);
    measure_use(m, 0);
}

void measure_use(struct measure *m, int call)
{
    const size_t elem = m->inputs.elem_bytes, count = m->count;
    m->send = m->from + (size_t)call * m->stride;
    m->recv = m->to + (size_t)call * m->stride;
    if (m->shape.in_place) {
        m->send += shape_send_offset(&m->shape, count) * elem;
        m->recv += shape_recv_offset(&m->shape, count) * elem;
    }
}

size_t measure_bytes(const struct measure *m)
{
    return m->count * m->inputs.elem_bytes
           * collective_parts(m->shape.collective, m->job->nranks);
}

void measure_flush(const struct measure *m)
{
    volatile unsigned char *const x = m->big;
    for (size_t i = 0; i < m->big_bytes; i += 64)
        x[i]++;
}

coll_status measure_call(struct measure *m,
                         coll_request *requests[SHAPE_REQUESTS])
{
    return shape_call(&m->shape, m->send, m->recv, m->count, m->comm, requests);
}

bool measure_fits(struct measure *m)
{
    const coll_status status = measure_call(m, NULL);
    if (status == COLL_ERR_UNSUPPORTED) /* on every rank */
        return false;
    job_check(m->job, status);
    return true;
}

static void rest(const struct measure *m)
{
    const double seconds =
        fmin(1e-9 * m->bench->options.pause * (double)measure_bytes(m),
             longest_pause);
    if (seconds > shortest_pause)
        nanosleep(&(struct timespec){.tv_nsec = lrint(1e9 * seconds)}, NULL);
}

void measure_together(const struct measure *m)
{
    measure_flush(m);
    rest(m);
    job_barrier(m->job);
}

void measure_begin(struct measure *m, long iteration)
{
    inputs_write(&m->inputs, m->send, m->count, iteration);
    measure_together(m);
}

void measure_end(struct measure *m)
{
    inputs_read(m->recv,
                shape_receives(&m->shape, m->count) * m->inputs.elem_bytes);
}

/* Seconds on this rank. */
static double iterate(struct measure *m, long iteration, bool check,
                      unsigned long long *wrong)
{
    measure_begin(m, iteration);
    const double start = job_clock();
    const coll_status status = measure_call(m, NULL);
    const double seconds = job_clock() - start;
    job_check(m->job, status);
    measure_end(m);
    if (check)
        *wrong += inputs_wrong(&m->inputs, m->recv, m->count, iteration);
    return seconds * collective_share(m->shape.collective);
}

/* Warms up, and decides from the time that took how often to measure. */
static long prepare(struct measure *m)
{
    const struct bench_options *const o = &m->bench->options;
    const double start = job_clock();
    for (long i = 0; i < o->warmup; i++)
        iterate(m, i, false, NULL);
    if (o->iterations > 0)
        return o->iterations;
    /* One more alone: the first ones may have set things up. */
    const double last = job_clock();
    iterate(m, o->warmup, false, NULL);
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

double measure_percentile(double *x, long n, double p)
{
    const long rank = (long)ceil(p * (double)n);
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[rank < 1 ? 0 : rank - 1];
}

static uint64_t cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000
           + (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Bytes that the library reads and writes in one iteration; one that is not
 * timed, so that asking costs nothing. */
static double moved(struct measure *m)
{
    coll_statistics before, after;
    measure_begin(m, 0);
    job_check(m->job, coll_stats(m->job->comm, &before));
    job_check(m->job, measure_call(m, NULL));
    job_check(m->job, coll_stats(m->job->comm, &after));
    measure_end(m);
    double bytes = (double)(after.bytes_read - before.bytes_read)
                   + (double)(after.bytes_written - before.bytes_written);
    job_max(m->job, &bytes, 1);
    return bytes;
}

void measure_run(struct measure *m, struct bench_result *result)
{
    const bool every = m->bench->options.check_every;
    unsigned long long wrong = 0;
    memset(m->to, INPUTS_UNTOUCHED, measure_bytes(m));
    const long n = prepare(m);
    double *const seconds = job_alloc((size_t)n * sizeof *seconds);
    const uint64_t cpu = cpu_us();
    for (long i = 0; i < n; i++)
        seconds[i] = iterate(m, i, every || i == 0 || i == n - 1, &wrong);
    result->cpu_seconds = 1e-6 * (double)job_sum(m->job, cpu_us() - cpu);
    job_max(m->job, seconds, (size_t)n);
    result->collective = m->shape.collective;
    result->count = m->count;
    result->bytes = measure_bytes(m);
    result->iterations = n;
    result->p50 = measure_percentile(seconds, n, 0.5);
    result->p99 = measure_percentile(seconds, n, 0.99);
    result->min = seconds[0];
    result->max = seconds[n - 1];
    result->wrong = job_sum(m->job, wrong);
    result->moved = moved(m);
    free(seconds);
}
