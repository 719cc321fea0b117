/* SPDX-License-Identifier: MIT */
/* Into how many pieces the gradients go, so that what is ready travels while
 * the layers before it still work. */
#ifndef TRAINER_DIST_BUCKETS_H
#define TRAINER_DIST_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>

enum { BUCKETS_CHOICES = 7 }; /* 1, 2, 4, ... 64 pieces */

/* Tries all choices, first what the model likes best, then keeps the one that
 * leaves least to wait for; tries again when that has become slower. */
struct buckets {
    double expected[BUCKETS_CHOICES]; /* seconds that stay visible */
    double seen[BUCKETS_CHOICES];     /* the least of some steps; 0: none */
    double usual, kept; /* what the one that is kept took at first; lately */
    int choice, steps;  /* and for how many steps it has been tried */
    bool settled;
};

/* What stays visible of pieces that take latency + bytes / bandwidth each, one
 * after another, where a backward pass gives them evenly: the first after its
 * part of the time, the last at the end. */
double buckets_visible(int pieces, double latency, double seconds_of_all,
                       double backward);

/* seconds_of_all: with one latency. backward: 0 if not known, then one piece.
 */
void buckets_start(struct buckets *, double latency, double seconds_of_all,
                   double backward);

/* A step with choice b->choice took so long visibly: sets the next choice. */
void buckets_step(struct buckets *, double visible);

#endif
