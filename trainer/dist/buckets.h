/* SPDX-License-Identifier: MIT */
/* Into how many pieces the gradients go, so that what is ready travels while
 * the layers before it still work, and in which of two ways: all are waited for
 * before the weights move, or each before the next forward needs it. */
#ifndef TRAINER_DIST_BUCKETS_H
#define TRAINER_DIST_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    BUCKETS_LATE = 7,    /* 1, 2, 4, ... 64 pieces; from this choice on */
    BUCKETS_CHOICES = 13 /* 2, 4, ... 64, waited for as they are needed */
};

/* Tries all choices, first what the model likes best, then a third of them
 * again, those of the shortest steps, and so on until one is left: the shortest
 * of many is so by chance, too. Steps count, as what travels under a layer may
 * take the processor from it. Tries again when more of the exchange has become
 * visible. */
struct buckets {
    double expected[BUCKETS_CHOICES]; /* seconds that stay visible */
    /* Of each trial the mean of some steps but the longest and the shortest:
     * what is late in one step may make the next one short. Of trials the mean.
     */
    double seen[BUCKETS_CHOICES];
    int trials[BUCKETS_CHOICES];
    int round; /* all that are still tried have been so often, or once less */
    double sum, longest, shortest; /* of the steps of a trial */
    double usual, kept; /* visible of the one that is kept: at first; lately */
    int choice, steps;  /* and for how many steps it has been tried */
    bool settled;
};

/* What stays visible of pieces that take latency + bytes / bandwidth each, one
 * after another, where a backward pass gives them evenly: the first after its
 * part of the time, the last at the end. */
double buckets_visible(int pieces, double latency, double seconds_of_all,
                       double backward);

/* How many pieces a choice means. */
int buckets_pieces(int choice);

/* expected: seconds that stay visible of each choice, INFINITY for those that
 * are not to be tried; one is. */
void buckets_start(struct buckets *, const double *expected);

/* A step took so long, and of that visibly for the exchange: sets the next
 * choice. Of two steps after a change of b->choice only the second may be of
 * the new one, and it is the first. True if a trial begins or all are over. */
bool buckets_step(struct buckets *, double seconds, double visible);

#endif
