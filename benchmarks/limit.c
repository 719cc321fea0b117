/* SPDX-License-Identifier: MIT */
#include "limit.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Short batches, of which some run through even on a busy machine. */
enum { ROUNDS = 50, BATCHES = 400, TRIALS = 5 };

/* Two threads hand one cache line back and forth. Each waits for the other's
 * number with acquire, which pairs with the other's release store. */
struct line {
    _Alignas(64) _Atomic unsigned turn;
    _Alignas(64) int cpu;
    _Atomic int ready; /* 1: on its CPU, -1: not allowed there */
};

static bool pin(int cpu)
{
    cpu_set_t set;
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return false;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

static void *echo(void *argument)
{
    struct line *const line = argument;
    const bool pinned = pin(line->cpu);
    atomic_store(&line->ready, pinned ? 1 : -1);
    for (unsigned i = 0; pinned && i < ROUNDS * BATCHES; i++) {
        while (atomic_load_explicit(&line->turn, memory_order_acquire)
               != 2 * i + 1)
            ;
        atomic_store_explicit(&line->turn, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static double play(struct line *line)
{
    double best = INFINITY;
    unsigned i = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = job_clock();
        for (int k = 0; k < ROUNDS; k++, i++) {
            atomic_store_explicit(&line->turn, 2 * i + 1, memory_order_release);
            while (atomic_load_explicit(&line->turn, memory_order_acquire)
                   != 2 * i + 2)
                ;
        }
        best = fmin(best, (job_clock() - start) / (2 * ROUNDS));
    }
    return best;
}

/* One way, between this thread's CPU and another; 0 if that is not allowed. */
static double line_seconds(int here, int there)
{
    struct line line = {.cpu = there};
    pthread_t thread;
    cpu_set_t before;
    double seconds = 0;
    if (sched_getaffinity(0, sizeof before, &before) != 0 || !pin(here))
        return 0;
    if (pthread_create(&thread, NULL, echo, &line) == 0) {
        while (!atomic_load(&line.ready))
            sched_yield();
        if (atomic_load(&line.ready) > 0)
            seconds = play(&line);
        pthread_join(thread, NULL);
    }
    sched_setaffinity(0, sizeof before, &before);
    return seconds;
}

/* Where another rank of rank 0's host runs, else any CPU that rank 0 may use;
 * -1 if there is none but its own. */
static int other_cpu(const struct job *job)
{
    const int here = job->cpu_of[0];
    cpu_set_t set;
    for (int r = 1; r < job->nranks; r++)
        if (job->host_of[r] == 0 && job->cpu_of[r] != here)
            return job->cpu_of[r];
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &set) && cpu != here)
            return cpu;
    return -1;
}

static bool shares_a_host(const struct job *job)
{
    for (int r = 1; r < job->nranks; r++)
        if (job->host_of[r] == 0)
            return true;
    return false;
}

void limit_measure(const struct job *job, struct bench_limits *limits)
{
    *limits = (struct bench_limits){0};
    if (shares_a_host(job)) {
        job_barrier(job);
        if (job->rank == 0)
            limits->line_seconds = line_seconds(job->cpu_of[0], other_cpu(job));
        else /* asleep, so as not to poll on the CPU that is measured */
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        job_max(job, &limits->line_seconds, 1);
    }
    if (job->nhosts > 1)
        limits->link_bytes_per_second = link_bandwidth(job);
}

/* The copy must not be left out, nor moved over a clock. */
static void keep(void *x)
{
    __asm__ volatile("" : : "r"(x) : "memory");
}

static void traffic(void *to, const void *from, size_t bytes)
{
    if (to != from) {
        memcpy(to, from, bytes);
    } else {
        unsigned char *const x = to;
        for (size_t i = 0; i < bytes; i++)
            x[i] ^= 1;
    }
    keep(to);
}

/* The same with stores that leave the caches alone, where the CPU has them.
 * Both vectors are whole pages, so the last few bytes may be overrun. */
static void traffic_streaming(void *to, const void *from, size_t bytes)
{
#if defined(__SSE2__)
    __m128i *const d = to;
    const __m128i *const s = from;
    for (size_t i = 0; i < (bytes + 15) / 16; i++)
        _mm_stream_si128(d + i, _mm_load_si128(s + i));
    _mm_sfence();
    keep(to);
#else
    traffic(to, from, bytes);
#endif
}

static double memory_seconds(const struct measure *m, size_t bytes)
{
    static void (*const ways[])(void *, const void *,
                                size_t) = {traffic, traffic_streaming};
    double seconds[2 * TRIALS];
    /* Short vectors many times, since the clock itself takes a while. */
    const size_t reps = m->big || bytes > 65536 ? 1 : 65536 / (bytes + 1) + 1;
    for (int i = 0; i < 2 * TRIALS; i++) {
        inputs_write(&m->inputs, m->send, bytes / m->inputs.elem_bytes, i);
        measure_flush(m);
        job_barrier(m->job);
        const double start = job_clock();
        for (size_t k = 0; k < reps; k++)
            ways[i % 2](m->recv, m->send, bytes);
        seconds[i] = (job_clock() - start) / (double)reps;
    }
    job_max(m->job, seconds, 2 * TRIALS);
    double best = seconds[0];
    for (int i = 1; i < 2 * TRIALS; i++)
        best = fmin(best, seconds[i]);
    return best;
}

double limit_of(const struct measure *m, size_t bytes)
{
    const struct bench_limits *const l = &m->bench->limits;
    const double h = m->job->nhosts;
    double seconds = fmax(memory_seconds(m, bytes), l->line_seconds);
    if (l->link_bytes_per_second > 0)
        seconds = fmax(seconds, 2 * (h - 1) / h * (double)bytes
                                    / l->link_bytes_per_second);
    return seconds;
}
