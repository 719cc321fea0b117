/* SPDX-License-Identifier: MIT */
/* The cases of the matrix: every collective x dtype x op x {in place, not} x
 * counts, and one rank's vectors in such a case. What each result must be
 * coll_bench knows.
 *
 * Vectors end where nobody may write, and an input that is no output stays what
 * it was. */
#ifndef TESTS_MATRIX_CASES_H
#define TESTS_MATRIX_CASES_H

#include "inputs.h"

/* 0, 1, 7, n - 1, n, n + 1, and a long one. */
enum { MATRIX_COUNTS = 7, MATRIX_SHORT_COUNTS = 6 };

/* Told of shapes in any order, each once; shape.rank is 0. counts: as the call
 * says them; the last one is 0 if there is no long one. */
typedef void matrix_try(void *context, const struct shape *,
                        const size_t counts[MATRIX_COUNTS]);

/* longest: the longest count, of the whole vector; 0: just the short ones. */
void matrix_each(int nranks, size_t longest, matrix_try *, void *context);

/* Some pairs, for where there is no time for the long count of all: every
 * width, and rounding, and dividing. */
bool matrix_has_long(coll_dtype, coll_op);

struct vectors {
    char *send, *recv; /* memory for the longest and a guard */
    char *in, *out;    /* what the call gets */
    size_t *lengths;   /* of a v-call's parts: to be the shape's */
};

void vectors_create(struct vectors *, int nranks, size_t longest);
void vectors_free(struct vectors *);

/* The input of a case; each turn has another. */
void vectors_write(struct vectors *, const struct inputs *, size_t count,
                   long turn);

/* After the call. Whether all is right; what says what is not. */
enum { WHAT_BYTES = 160 };
bool vectors_right(const struct vectors *, const struct inputs *, size_t count,
                   long turn, char what[WHAT_BYTES]);

#endif
