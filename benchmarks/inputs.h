/* SPDX-License-Identifier: MIT */
/* Inputs whose reduction is exact, and what it must be.
 *
 * Every rank's input repeats a block of INPUTS_PERIOD elements, so that it can
 * be rewritten at the speed of memory and checked without a second vector. The
 * length is prime: a chunk in the wrong place hardly ever meets the same
 * elements. In each iteration the block starts elsewhere, so that the result of
 * the previous one is wrong.
 */
#ifndef INPUTS_H
#define INPUTS_H

#include <stddef.h>

#include "coll/coll.h"

enum { INPUTS_PERIOD = 1021 };

struct inputs {
    size_t elem_bytes;
    unsigned char *mine;     /* this rank's block */
    unsigned char *expected; /* the reduction of all ranks' blocks */
};

/* The caller ends it with inputs_free(). */
void inputs_create(struct inputs *, coll_dtype, coll_op, int rank, int nranks);
void inputs_free(struct inputs *);

/* Writes the input of an iteration, every cache line of it. */
void inputs_write(const struct inputs *, void *send, size_t count,
                  long iteration);

/* Reads every cache line. */
void inputs_read(const void *recv, size_t bytes);

/* The number of elements that are not what they must be. */
size_t inputs_wrong(const struct inputs *, const void *recv, size_t count,
                    long iteration);

#endif
