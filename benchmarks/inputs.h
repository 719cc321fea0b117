/* SPDX-License-Identifier: MIT */
/* Inputs whose results are exact, and what these must be.
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

#include "collective.h"

enum {
    INPUTS_PERIOD = 1021,
    INPUTS_UNTOUCHED = 0xff, /* bytes of an output that nobody may write */
};

struct inputs {
    struct shape shape;
    size_t elem_bytes;
    unsigned char *mine;     /* this rank's block */
    unsigned char *expected; /* the result's: a block, or one for each rank's
                                part of it */
};

/* The caller ends it with inputs_free(). */
void inputs_create(struct inputs *, const struct shape *);
void inputs_free(struct inputs *);

/* Writes the input of an iteration, every cache line of it. count as in the
 * call; a rank without input writes nothing. */
void inputs_write(const struct inputs *, void *send, size_t count,
                  long iteration);

/* The number of elements of such an input that are no longer what they were. */
size_t inputs_changed(const struct inputs *, const void *send, size_t count,
                      long iteration);

/* Reads every cache line. */
void inputs_read(const void *recv, size_t bytes);

/* The number of elements that are not what they must be. A rank that gets
 * nothing from a reduce, gather or pingpong must find its memory as it was:
 * full of INPUTS_UNTOUCHED, or its own input if in place. */
size_t inputs_wrong(const struct inputs *, const void *recv, size_t count,
                    long iteration);

#endif
