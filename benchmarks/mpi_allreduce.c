/* SPDX-License-Identifier: MIT */
/* The measurement of coll_bench allreduce -d f32 -o sum with MPI, by the same
 * timing rule, for compare_mpi.py.
 *
 *   mpi_allreduce MIN MAX FACTOR      bytes; prints bytes, min, p50, p99, max
 *                                     in us and the number of wrong elements
 *
 * Before every iteration each rank rewrites its input and after it reads its
 * output; the ranks start together, from an allreduce of one byte as there; an
 * iteration takes the time of its slowest rank.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in inputs.h and measure.c. */
enum { PERIOD = 1021, WARMUP = 5, FEWEST = 10, MOST = 5000 };
static const double size_seconds = 0.25;

struct run {
    int rank, nranks;
    float *send, *recv;
    float mine[PERIOD], expected[PERIOD];
};

static void *pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t whole = (bytes + page - 1) / page * page;
    void *x = NULL;
    if (posix_memalign(&x, page, whole) != 0) {
        fprintf(stderr, "mpi_allreduce: no memory for %zu bytes\n", whole);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(x, 0xff, whole);
    return x;
}

static float value_of(int rank, int i)
{
    return (float)((i * 7 + rank * 13 + i / 16) % 16);
}

static void fill_blocks(struct run *run)
{
    for (int i = 0; i < PERIOD; i++) {
        run->mine[i] = value_of(run->rank, i);
        run->expected[i] = 0;
        for (int r = 0; r < run->nranks; r++)
            run->expected[i] += value_of(r, i);
    }
}

static size_t piece(size_t i, size_t count, long iteration, size_t *from)
{
    *from = (i + (size_t)iteration) % PERIOD;
    const size_t left = PERIOD - *from;
    return left < count - i ? left : count - i;
}

static void write_input(const struct run *run, size_t count, long iteration)
{
    size_t from;
    for (size_t i = 0, n; i < count; i += n) {
        n = piece(i, count, iteration, &from);
        memcpy(run->send + i, run->mine + from, n * sizeof(float));
    }
}

static void read_output(const struct run *run, size_t count)
{
    const volatile unsigned char *const x = (unsigned char *)run->recv;
    unsigned char seen = 0;
    for (size_t i = 0; i < count * sizeof(float); i += 64)
        seen ^= x[i];
    (void)seen;
}

static long count_wrong(const struct run *run, size_t count, long iteration)
{
    long wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong +=
            run->recv[i] != run->expected[(i + (size_t)iteration) % PERIOD];
    return wrong;
}

static double iterate(struct run *run, size_t count, long iteration)
{
    unsigned char mine = 0, all;
    write_input(run, count, iteration);
    MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(run->send, run->recv, (int)count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - start;
    read_output(run, count);
    return seconds;
}

static long prepare(struct run *run, size_t count)
{
    for (long i = 0; i < WARMUP; i++)
        iterate(run, count, i);
    const double start = MPI_Wtime();
    iterate(run, count, WARMUP);
    double turn = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &turn, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
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

static void measure(struct run *run, size_t count)
{
    const long n = prepare(run, count);
    double *const seconds = pages((size_t)n * sizeof *seconds);
    long wrong = 0;
    for (long i = 0; i < n; i++) {
        seconds[i] = iterate(run, count, i);
        if (i == 0 || i == n - 1)
            wrong += count_wrong(run, count, i);
    }
    MPI_Allreduce(MPI_IN_PLACE, seconds, (int)n, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    if (run->rank == 0) {
        printf("%zu %.4f %.4f %.4f %.4f %ld\n", count * sizeof(float),
               seconds[0] * 1e6, percentile_us(seconds, n, 0.5),
               percentile_us(seconds, n, 0.99), seconds[n - 1] * 1e6, wrong);
        fflush(stdout);
    }
    free(seconds);
}

int main(int argc, char **argv)
{
    static struct run run;
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "usage: mpi_allreduce MIN MAX FACTOR\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const double min = atof(argv[1]), max = atof(argv[2]);
    const double factor = fmax(atof(argv[3]), 1.1);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.nranks);
    run.send = pages((size_t)max);
    run.recv = pages((size_t)max);
    fill_blocks(&run);
    for (double bytes = min; bytes <= max; bytes *= factor)
        measure(&run, (size_t)bytes / sizeof(float));
    free(run.send);
    free(run.recv);
    MPI_Finalize();
    return 0;
}
