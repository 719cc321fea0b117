/* SPDX-License-Identifier: MIT */
#include "peer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* As in inputs.h and measure.c. */
enum { PERIOD = 1021, WARMUP = 5, FEWEST = 10, MOST = 5000 };
static const double size_seconds = 0.25;
static const double shortest_pause = 1e-4, longest_pause = 5e-3;

/* One turn may say little of the others: ranks that poll on one CPU wait for
 * the scheduler, but not every time. So the clock is looked at after so many
 * iterations, and a size ends when it has had a multiple of its time. */
enum { BATCH = 16 };
static const double most_seconds = 1.5;

struct run {
    const struct peer *peer;
    enum peer_collective collective;
    size_t count, parts; /* the call's; of S, whole vectors have one */
    double pause;        /* ns for each byte of S */
    float *send, *recv, *result;
    float *blocks; /* one of PERIOD elements for each rank */
    float sum[PERIOD];
};

static const char *const names[PEER_NCOLLECTIVES] = {
    "allreduce", "reduce",  "broadcast", "reduce_scatter", "allgather",
    "gather",    "scatter", "alltoall",  "barrier",
};

enum peer_collective peer_collective_find(const char *name)
{
    int c = 0;
    while (c < PEER_NCOLLECTIVES && strcmp(name, names[c]) != 0)
        c++;
    return (enum peer_collective)c;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes / page + 1) * page;
    void *const x = aligned_alloc(page, whole);
    if (!x) {
        fprintf(stderr, "peer: no memory for %zu bytes\n", whole);
        exit(1);
    }
    return memset(x, 0xff, whole);
}

/* Small whole numbers: every order of adding gives the same bits. */
static void fill_blocks(struct run *run)
{
    const int n = run->peer->nranks;
    run->blocks = pages((size_t)n * PERIOD * sizeof(float));
    for (int i = 0; i < PERIOD; i++) {
        run->sum[i] = 0;
        for (int r = 0; r < n; r++) {
            const float x = (float)((i * 7 + r * 13 + i / 16) % 16);
            run->blocks[r * PERIOD + i] = x;
            run->sum[i] += x;
        }
    }
}

static size_t sends(const struct run *run)
{
    switch (run->collective) {
    case PEER_BROADCAST:
        return run->peer->rank == 0 ? run->count : 0;
    case PEER_SCATTER:
        return run->peer->rank == 0 ? run->count * run->parts : 0;
    case PEER_REDUCE_SCATTER:
    case PEER_ALLTOALL:
        return run->count * run->parts;
    default:
        return run->count;
    }
}

static size_t receives(const struct run *run)
{
    switch (run->collective) {
    case PEER_REDUCE:
        return run->peer->rank == 0 ? run->count : 0;
    case PEER_GATHER:
        return run->peer->rank == 0 ? run->count * run->parts : 0;
    case PEER_ALLGATHER:
    case PEER_ALLTOALL:
        return run->count * run->parts;
    default:
        return run->count;
    }
}

static void write_input(const struct run *run, long iteration)
{
    const float *const mine = run->blocks + run->peer->rank * PERIOD;
    const size_t all = sends(run);
    for (size_t i = 0, n; i < all; i += n) {
        const size_t from = (i + (size_t)iteration) % PERIOD;
        n = PERIOD - from < all - i ? PERIOD - from : all - i;
        memcpy(run->send + i, mine + from, n * sizeof(float));
    }
}

static void read_output(const struct run *run)
{
    const volatile unsigned char *const x = (const void *)run->result;
    const size_t bytes = receives(run) * sizeof(float);
    unsigned char seen = 0;
    for (size_t i = 0; i < bytes; i += 64)
        seen ^= x[i];
    (void)seen;
}

/* Element i of this rank's result. */
static float expected(const struct run *run, size_t i, long iteration)
{
    const size_t turn = (size_t)iteration;
    const size_t mine = (size_t)run->peer->rank * run->count;
    switch (run->collective) {
    case PEER_BROADCAST:
        return run->blocks[(i + turn) % PERIOD];
    case PEER_SCATTER:
        return run->blocks[(mine + i + turn) % PERIOD];
    case PEER_GATHER:
    case PEER_ALLGATHER:
        return run->blocks[i / run->count * PERIOD
                           + (i % run->count + turn) % PERIOD];
    case PEER_ALLTOALL:
        return run->blocks[i / run->count * PERIOD
                           + (mine + i % run->count + turn) % PERIOD];
    case PEER_REDUCE_SCATTER:
        return run->sum[(mine + i + turn) % PERIOD];
    default:
        return run->sum[(i + turn) % PERIOD];
    }
}

static double count_wrong(const struct run *run, long iteration)
{
    const size_t all = receives(run);
    double wrong = 0;
    for (size_t i = 0; i < all; i++)
        wrong += run->result[i] != expected(run, i, iteration);
    return wrong;
}

static void rest(const struct run *run)
{
    const double bytes = (double)(run->count * run->parts * sizeof(float));
    const double seconds = fmin(1e-9 * run->pause * bytes, longest_pause);
    if (seconds > shortest_pause)
        nanosleep(&(struct timespec){.tv_nsec = lrint(1e9 * seconds)}, NULL);
}

static double iterate(struct run *run, long iteration)
{
    const struct peer *const p = run->peer;
    write_input(run, iteration);
    rest(run);
    p->together(p->context);
    const double start = now();
    run->result =
        p->call(p->context, run->collective, run->send, run->recv, run->count);
    const double seconds = now() - start;
    read_output(run);
    return seconds;
}

static double largest(const struct run *run, double x)
{
    run->peer->largest(run->peer->context, &x, 1);
    return x;
}

static long prepare(struct run *run)
{
    const double first = now();
    for (long i = 0; i < WARMUP; i++)
        iterate(run, i);
    const double last = now();
    iterate(run, WARMUP);
    const double one = now() - last, all = now() - first;
    const double turn = largest(run, fmin(one, all / (WARMUP + 1)));
    return (long)fmin(fmax(size_seconds / turn, FEWEST), MOST);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile_us(const double *sorted, long n, double p)
{
    const long rank = (long)ceil(p * (double)n);
    return sorted[rank < 1 ? 0 : rank - 1] * 1e6;
}

static void print(const struct run *run, double *seconds, long n, double wrong)
{
    const size_t bytes = run->count * run->parts * sizeof(float);
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    printf("%zu %.4f %.4f %.4f %.4f %.0f %ld\n", bytes, seconds[0] * 1e6,
           percentile_us(seconds, n, 0.5), percentile_us(seconds, n, 0.99),
           seconds[n - 1] * 1e6, wrong, n);
    fflush(stdout);
}

static void measure(struct run *run)
{
    const long wanted = prepare(run);
    double *const seconds = pages((size_t)wanted * sizeof *seconds);
    const double start = now();
    double wrong = 0;
    long n = 0;
    for (bool more = true; more;) {
        seconds[n] = iterate(run, n);
        if (n == 0)
            wrong += count_wrong(run, n);
        n++;
        more = n < wanted
               && (n % BATCH || largest(run, now() - start) < most_seconds);
    }
    wrong = largest(run, wrong + count_wrong(run, n - 1));
    run->peer->largest(run->peer->context, seconds, (size_t)n);
    if (run->peer->rank == 0)
        print(run, seconds, n, wrong);
    free(seconds);
}

static int usage(void)
{
    fprintf(stderr, "usage: peer COLLECTIVE MIN MAX FACTOR [PAUSE]\n");
    return 2;
}

int peer_run(const struct peer *peer, int argc, char **argv)
{
    struct run run = {.peer = peer, .parts = 1};
    if (argc != 5 && argc != 6)
        return usage();
    run.pause = argc == 6 ? fmax(atof(argv[5]), 0) : 0;
    run.collective = peer_collective_find(argv[1]);
    const double min = atof(argv[2]), max = atof(argv[3]);
    const double factor = fmax(atof(argv[4]), 1.1);
    if (run.collective == PEER_NCOLLECTIVES || !(min >= 1) || !(max >= min))
        return usage();
    if (run.collective >= PEER_REDUCE_SCATTER
        && run.collective <= PEER_ALLTOALL)
        run.parts = (size_t)peer->nranks;
    const size_t unit = run.parts * sizeof(float);
    run.send = pages((size_t)max + unit);
    run.recv = pages((size_t)max + unit);
    fill_blocks(&run);
    size_t last = 0;
    for (double bytes = min; bytes <= max; bytes *= factor) {
        run.count = (size_t)bytes / unit > 0 ? (size_t)bytes / unit : 1;
        if (run.collective == PEER_BARRIER)
            run.count = 0;
        else if (run.count == last)
            continue;
        last = run.count;
        measure(&run);
        if (run.count == 0)
            break;
    }
    free(run.send);
    free(run.recv);
    free(run.blocks);
    return 0;
}
