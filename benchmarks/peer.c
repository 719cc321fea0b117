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
    struct peer_call call;
    double pause; /* ns for each byte of S */
    float *result;
    float *blocks; /* one of PERIOD elements for each rank */
    float sum[PERIOD];
};

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

/* Elements of S. */
static size_t whole(const struct run *run)
{
    const struct peer_call *const c = &run->call;
    return c->count * collective_parts(c->shape.collective, c->shape.nranks);
}

static void write_input(const struct run *run, long iteration)
{
    const float *const mine = run->blocks + run->peer->rank * PERIOD;
    const size_t all = shape_sends(&run->call.shape, run->call.count);
    for (size_t i = 0, n; i < all; i += n) {
        const size_t from = (i + (size_t)iteration) % PERIOD;
        n = PERIOD - from < all - i ? PERIOD - from : all - i;
        memcpy(run->call.send + i, mine + from, n * sizeof(float));
    }
}

static void read_output(const struct run *run)
{
    const volatile unsigned char *const x = (const void *)run->result;
    const size_t bytes =
        shape_receives(&run->call.shape, run->call.count) * sizeof(float);
    unsigned char seen = 0;
    for (size_t i = 0; i < bytes; i += 64)
        seen ^= x[i];
    (void)seen;
}

/* Of n elements of the result, which are those of a block from its element
 * first.
 */
static double wrong_in(const struct run *run, size_t at, size_t n,
                       const float *block, size_t first, long iteration)
{
    double wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += run->result[at + i]
                 != block[(first + i + (size_t)iteration) % PERIOD];
    return wrong;
}

static double wrong_parts(const struct run *run, long iteration)
{
    const struct shape *const s = &run->call.shape;
    const size_t all = whole(run);
    const bool cut = collective_even(s->collective) == ALLTOALL;
    double wrong = 0;
    for (int r = 0; r < s->nranks; r++)
        wrong +=
            wrong_in(run, shape_part_begin(s, all, s->rank, r),
                     shape_part(s, all, s->rank, r), run->blocks + r * PERIOD,
                     cut ? shape_part_begin(s, all, r, s->rank) : 0, iteration);
    return wrong;
}

static double count_wrong(const struct run *run, long iteration)
{
    const struct shape *const s = &run->call.shape;
    const size_t n = shape_receives(s, run->call.count);
    if (n == 0)
        return 0;
    switch (collective_even(s->collective)) {
    case ALLGATHER:
    case GATHER:
    case ALLTOALL:
        return wrong_parts(run, iteration);
    case BROADCAST:
    case SCATTER:
        return wrong_in(run, 0, n, run->blocks,
                        shape_recv_offset(s, run->call.count), iteration);
    case SENDRECV:
    case PINGPONG:
        return wrong_in(run, 0, n, run->blocks + shape_source(s) * PERIOD, 0,
                        iteration);
    default:
        return wrong_in(run, 0, n, run->sum,
                        shape_recv_offset(s, run->call.count), iteration);
    }
}

static void rest(const struct run *run)
{
    const double bytes = (double)(whole(run) * sizeof(float));
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
    run->result = p->call(p->context, &run->call);
    const double seconds = now() - start;
    read_output(run);
    return seconds * collective_share(run->call.shape.collective);
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
    const size_t bytes = whole(run) * sizeof(float);
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

static enum collective find(const char *name)
{
    int c = 0;
    while (c < NCOLLECTIVES
           && strcmp(name, collective_name((enum collective)c)) != 0)
        c++;
    return (enum collective)c;
}

/* What the call says besides its vectors. */
static void set_count(struct run *run, size_t count)
{
    struct peer_call *const c = &run->call;
    const struct shape *const s = &c->shape;
    c->count = count;
    for (int r = 0; r < s->nranks; r++) {
        c->begins[r] = (int)shape_part_begin(s, whole(run), s->rank, r);
        c->lengths[r] = (int)shape_part(s, whole(run), s->rank, r);
    }
}

static void sweep(struct run *run, double min, double max, double factor)
{
    const enum collective c = run->call.shape.collective;
    const size_t unit = collective_parts(c, run->peer->nranks) * sizeof(float);
    size_t last = 0;
    for (double bytes = min; bytes <= max; bytes *= factor) {
        const size_t count =
            (size_t)bytes / unit > 0 ? (size_t)bytes / unit : 1;
        if (count == last)
            continue;
        last = count;
        set_count(run, c == BARRIER ? 0 : count);
        measure(run);
        if (c == BARRIER)
            break;
    }
}

int peer_run(const struct peer *peer, int argc, char **argv)
{
    struct run run = {.peer = peer};
    if (argc != 5 && argc != 6)
        return usage();
    run.pause = argc == 6 ? fmax(atof(argv[5]), 0) : 0;
    run.call.shape = (struct shape){
        .collective = find(argv[1]),
        .rank = peer->rank,
        .nranks = peer->nranks,
    };
    const double min = atof(argv[2]), max = atof(argv[3]);
    if (run.call.shape.collective == NCOLLECTIVES || !(min >= 1)
        || !(max >= min))
        return usage();
    const size_t numbers = (size_t)peer->nranks * sizeof(int);
    const size_t room = (size_t)max + (size_t)peer->nranks * sizeof(float);
    run.call.send = pages(room);
    run.call.recv = pages(room);
    run.call.lengths = pages(numbers);
    run.call.begins = pages(numbers);
    fill_blocks(&run);
    sweep(&run, min, max, fmax(atof(argv[4]), 1.1));
    free(run.call.send);
    free(run.call.recv);
    free(run.call.lengths);
    free(run.call.begins);
    free(run.blocks);
    return 0;
}
