/* SPDX-License-Identifier: MIT */
/* OpenBLAS as threads of a crew call it: side by side, each alone. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checks.h"
#include "crew.h"
#include "kernels/gemm.h"
#include "random.h"

enum { THREADS = 8, ROUNDS = 40, SHAPES = 6, MOST = 192 };

/* Small ones, for which OpenBLAS has kernels of their own, and large ones,
 * which copy the matrices into buffers first. */
static const struct {
    int m, n, k;
    bool a, b; /* transposed */
} shapes[SHAPES] = {
    {1,   17,  30,  false, false},
    {7,   5,   129, true,  false},
    {64,  64,  64,  false, true },
    {100, 40,  25,  true,  true },
    {192, 191, 150, false, false},
    {33,  192, 192, false, true },
};

static float a[MOST * MOST], b[MOST * MOST], wanted[SHAPES][MOST * MOST];

static void multiply(int s, float *c)
{
    const struct matrix x = {a, shapes[s].a ? shapes[s].k : shapes[s].m,
                             shapes[s].a ? shapes[s].m : shapes[s].k,
                             shapes[s].a, 0};
    const struct matrix y = {b, shapes[s].b ? shapes[s].n : shapes[s].k,
                             shapes[s].b ? shapes[s].k : shapes[s].n,
                             shapes[s].b, 0};
    gemm(x, y, 0, c, shapes[s].n);
}

/* Each thread in an order of its own, so that all meet. */
static void part(void *context, int i, int n)
{
    static float results[THREADS][MOST * MOST];
    bool *right = context;
    (void)n;
    right[i] = true;
    for (int k = 0; k < ROUNDS * SHAPES; k++) {
        const int s = (i + k * (1 + 4 * (i % 2))) % SHAPES;
        const size_t count = (size_t)shapes[s].m * (size_t)shapes[s].n;
        memset(results[i], 0xff, count * sizeof(float));
        multiply(s, results[i]);
        right[i] &= !memcmp(results[i], wanted[s], count * sizeof(float));
    }
}

static double cpu_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void threads_get_the_bits_of_one(void)
{
    struct crew *crew = crew_create(THREADS, NULL);
    bool right[THREADS];
    require(crew != NULL, "no crew");
    crew_run(crew, part, right);
    for (int i = 0; i < THREADS; i++)
        require(right[i], "a product of several threads has other bits");
    crew_free(crew);
}

/* What share of the computing this thread does. OpenBLAS's own threads look for
 * work for a while after they have started. */
static double share(const struct matrix *m, float *c)
{
    const double all = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double mine = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int k = 0; k < 10; k++)
        gemm(*m, *m, 0, c, m->columns);
    const double took = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - mine;
    return took / (cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - all);
}

static void a_product_takes_one_thread(void)
{
    enum { N = 400, MOST_TIMES = 200 };
    float *x = calloc(2 * N * N, sizeof(*x));
    const struct matrix m = {x, N, N, false, 0};
    int times = 0;
    require(x != NULL, "no memory");
    while (share(&m, x + N * N) < 0.95)
        require(++times < MOST_TIMES, "other threads have computed, too");
    free(x);
}

int main(void)
{
    gemm_alone();
    for (int i = 0; i < MOST * MOST; i++) {
        a[i] = 2 * random_unit(1, (uint64_t)i) - 1;
        b[i] = 2 * random_unit(2, (uint64_t)i) - 1;
    }
    for (int s = 0; s < SHAPES; s++)
        multiply(s, wanted[s]);
    return run_checks(
        (const struct check[]){
            {"a product takes one thread",  a_product_takes_one_thread },
            {"threads get the bits of one", threads_get_the_bits_of_one}
    },
        2);
}
