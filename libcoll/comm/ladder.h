/* SPDX-License-Identifier: MIT */
/* What a candidate takes at all sizes, from the few at which it was rehearsed.
 *
 * For a given number of segments the time is nearly a straight line over the
 * sizes, or a few straight pieces, so between two rungs there is a line. Where
 * vectors leave the caches it jumps: a size then goes by two rungs of its own
 * side, if so many are known there. */
#ifndef COMM_LADDER_H
#define COMM_LADDER_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LADDER_RUNGS = 12,
    LADDER_LAST = LADDER_RUNGS - 1,
    LADDER_VARIANTS = 5, /* 1, 2, 4, 8 or 16 segments */
};

/* The class (see price.h) whose middle each rung is, ascending. */
extern const int ladder_class[LADDER_RUNGS];

struct ladder {
    size_t cache; /* bytes of the longest vector that stays there */
    double seconds[LADDER_VARIANTS][LADDER_RUNGS]; /* NAN: not rehearsed */
    unsigned
        bounds[LADDER_VARIANTS]; /* bit per rung: it takes more than that */
};

void ladder_clear(struct ladder *, size_t cache);

/* INFINITY: too little is known. Several segments are not told of sizes below
 * their lowest rung, nor of such that make them shorter than 4 KiB. */
double ladder_seconds(const struct ladder *, int variant, size_t bytes);

/* Notes the least that it takes at a rung. */
void ladder_bound(struct ladder *, int variant, int rung, double seconds);
bool ladder_bounded(const struct ladder *, int variant, int rung);

/* The rung of a bound that is at an end of the line that tells of a size;
 * negative: neither end is one. */
int ladder_leans_on(const struct ladder *, int variant, size_t bytes);
/* A bound becomes what was never rehearsed. */
void ladder_forget(struct ladder *, int variant, int rung);

/* Whether any number of segments was rehearsed at a rung. */
bool ladder_knows(const struct ladder *, int rung);

/* The nearest rung below one that is known; negative: none. */
int ladder_below(const struct ladder *, int variant, int rung);

/* Whether a line tells of a rung within 5 %: it is no lower than the lines on
 * either side go on to say, if the time is a convex function of the bytes; it
 * may jump up where vectors leave the caches. */
bool ladder_sure(const struct ladder *, int variant, int rung);

/* No more than it takes at a rung, by what it takes at others: it grows with
 * the bytes, but not faster than they do. */
double ladder_floor(const struct ladder *, int variant, int rung);

/* The best of all variants, and which that is. */
double ladder_best(const struct ladder *, size_t bytes, int *variant);

/* The one to run: more segments must promise 1.5 % less, as more messages cost
 * what no model sees. */
double ladder_choice(const struct ladder *, size_t bytes, int *variant);

/* Whether so many segments are long enough to be worth their messages. */
int ladder_may(int variant, size_t bytes);

#endif
