/* SPDX-License-Identifier: MIT */
/* What a candidate takes at all sizes, from the few at which it was rehearsed.
 *
 * For a given number of segments the time is nearly a straight line over the
 * sizes, or a few straight pieces, so between two rungs there is a line. */
#ifndef COMM_LADDER_H
#define COMM_LADDER_H

#include <stddef.h>

enum {
    LADDER_RUNGS = 12,
    LADDER_LAST = LADDER_RUNGS - 1,
    LADDER_VARIANTS = 5, /* 1, 2, 4, 8 or 16 segments */
};

/* The class (see price.h) whose middle each rung is, ascending. */
extern const int ladder_class[LADDER_RUNGS];

struct ladder {
    double seconds[LADDER_VARIANTS][LADDER_RUNGS]; /* NAN: not rehearsed */
};

void ladder_clear(struct ladder *);

/* INFINITY: too little is known. Several segments are not told of sizes below
 * their lowest rung, nor of such that make them shorter than 4 KiB. */
double ladder_seconds(const struct ladder *, int variant, size_t bytes);

/* The best of all variants, and which that is. */
double ladder_best(const struct ladder *, size_t bytes, int *variant);

/* Whether so many segments are long enough to be worth their messages. */
int ladder_may(int variant, size_t bytes);

#endif
