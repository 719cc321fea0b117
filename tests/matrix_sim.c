/* SPDX-License-Identifier: MIT */
/* The matrix (matrix_cases.h) on simulated ranks: by every algorithm that has
 * plans, with the library's executor and kernels.
 *
 *   matrix_sim NRANKS LONG      LONG is the longest count, of the whole vector;
 *                               0: just the short ones
 *
 * The long one for some pairs of dtype and op only. Prints how many cases there
 * were. */
#include <stdio.h>
#include <stdlib.h>

#include "matrix_cases.h"
#include "simulated.h"

enum { MOST_RANKS = 64 };

static struct vectors vectors[MOST_RANKS];
static struct inputs inputs[MOST_RANKS];
static unsigned long cases, wrong;

static void tell(const char *algorithm, const char *what)
{
    if (wrong++ < 5)
        fprintf(stderr, "matrix_sim: %s, %s\n", algorithm, what);
}

static void try_one(const struct shape *s, size_t count, int algorithm,
                    const char *name)
{
    const long turn = (long)cases++;
    const bool v = collective_even(s->collective) != s->collective;
    char what[WHAT_BYTES], *in[MOST_RANKS], *out[MOST_RANKS];
    const size_t *lengths[MOST_RANKS];
    for (int r = 0; r < s->nranks; r++) {
        vectors_write(&vectors[r], &inputs[r], count, turn);
        in[r] = vectors[r].in;
        out[r] = vectors[r].out;
        lengths[r] = vectors[r].lengths;
    }
    const coll_status status =
        simulate(algorithm, &(struct simulated){
                                .nranks = s->nranks,
                                .root = s->root,
                                .count = count,
                                .lengths = v ? lengths : NULL,
                                .dtype = s->dtype,
                                .op = s->op,
                                .in_place = s->in_place,
                                .in = in,
                                .out = out,
                                .turn = (unsigned)turn,
                            });
    if (status < 0)
        tell(name, coll_last_error(NULL));
    for (int r = 0; r < s->nranks && status == COLL_OK; r++)
        if (!vectors_right(&vectors[r], &inputs[r], count, turn, what)) {
            tell(name, what);
            return;
        }
}

static void try_counts(void *context, const struct shape *of,
                       const size_t counts[MATRIX_COUNTS])
{
    struct shape shape = *of;
    (void)context;
    for (int r = 0; r < of->nranks; r++) {
        shape.rank = r;
        shape.lengths = vectors[r].lengths;
        inputs_create(&inputs[r], &shape);
    }
    const int n =
        counts[MATRIX_SHORT_COUNTS] && matrix_has_long(of->dtype, of->op)
            ? MATRIX_COUNTS
            : MATRIX_SHORT_COUNTS;
    for (int a = 0; a < simulated_n; a++) {
        const char *name =
            simulated_algorithm(a, collective_name(of->collective), of->nranks);
        for (int i = 0; i < n && name; i++)
            try_one(of, counts[i], a, name);
    }
    for (int r = 0; r < of->nranks; r++)
        inputs_free(&inputs[r]);
}

int main(int argc, char **argv)
{
    const int n = argc == 3 ? atoi(argv[1]) : 0;
    const size_t longest = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (n < 1 || n > MOST_RANKS) {
        fprintf(stderr,
                "usage: matrix_sim NRANKS LONG, with at most %d ranks\n",
                MOST_RANKS);
        return 2;
    }
    for (int r = 0; r < n; r++)
        vectors_create(&vectors[r], n, longest);
    matrix_each(n, longest, try_counts, NULL);
    for (int r = 0; r < n; r++)
        vectors_free(&vectors[r]);
    printf("%lu cases, %lu wrong\n", cases, wrong);
    return wrong != 0;
}
