/* SPDX-License-Identifier: MIT */
/* The matrix (matrix_cases.h) on the ranks of one job.
 *
 *   matrix LONG      under collrun; LONG is the longest count, of the whole
 *                    vector; 0: just the short ones. More than 5 ranks take
 *                    it for some pairs of dtype and op
 *
 * Rank 0 prints how many cases there were. */
#include <stdio.h>
#include <stdlib.h>

#include "job.h"
#include "matrix_cases.h"

enum { ALL_LONG = 5 };

static struct job job;
static struct vectors vectors;
static uint64_t cases, wrong;

static void try_one(const struct inputs *inputs, size_t count)
{
    const long turn = (long)cases++;
    char what[WHAT_BYTES];
    vectors_write(&vectors, inputs, count, turn);
    job_check(&job, shape_call(&inputs->shape, vectors.in, vectors.out, count,
                               job.comm, NULL));
    if (!vectors_right(&vectors, inputs, count, turn, what) && wrong++ < 5)
        fprintf(stderr, "matrix: %s\n", what);
}

static void try_counts(void *context, const struct shape *of,
                       const size_t counts[MATRIX_COUNTS])
{
    struct shape shape = *of;
    struct inputs inputs;
    (void)context;
    shape.rank = job.rank;
    shape.lengths = vectors.lengths;
    inputs_create(&inputs, &shape);
    const bool is_long =
        counts[MATRIX_SHORT_COUNTS]
        && (job.nranks <= ALL_LONG || matrix_has_long(of->dtype, of->op));
    for (int i = 0; i < MATRIX_COUNTS; i++)
        if (i < MATRIX_SHORT_COUNTS || is_long)
            try_one(&inputs, counts[i]);
    inputs_free(&inputs);
}

int main(int argc, char **argv)
{
    const size_t longest = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    job_start(&job);
    vectors_create(&vectors, job.nranks, longest);
    matrix_each(job.nranks, longest, try_counts, NULL);
    const uint64_t all = job_sum(&job, wrong);
    if (job.rank == 0)
        printf("%llu cases, %llu wrong\n", (unsigned long long)cases,
               (unsigned long long)all);
    vectors_free(&vectors);
    job_finish(&job);
    return all != 0;
}
