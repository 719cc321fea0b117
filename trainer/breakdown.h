/* SPDX-License-Identifier: MIT */
/* Where the time of a rank goes, from the program's start to its end: the eight
 * parts of You, Buluc and Demmel (SC 2017), and what those leave out.
 *
 * Every moment belongs to one part: whoever begins something says so, and what
 * it returns to afterwards. It is always measured, as that is a look at the
 * clock a few times a step. Of a rank's own thread; others' time is not seen,
 * but for the mean of a server's threads (breakdown_charge()).
 */
#ifndef TRAINER_BREAKDOWN_H
#define TRAINER_BREAKDOWN_H

#include <stdbool.h>
#include <stdio.h>

#include "trace.h"

enum part {
    PART_READ,       /* 1 reading images */
    PART_INITIALISE, /* 2 data and weights, until the first step */
    PART_INSIDE,     /* 3 parameters or gradients, ranks of one host */
    PART_DATA,       /* 4 a batch, from the thread that reads it */
    PART_OUTSIDE,    /* 5 parameters, between hosts or with a server */
    PART_FORWARD,    /* 6 and this */
    PART_BACKWARD,
    PART_UPDATE, /* 7 of a worker's weights */
    PART_CENTRE, /* 8 of weights that workers share: a centre, a server's */
    PART_TEST,   /* evaluations and checkpoints, which the paper has not */
    PART_REST,
    PARTS
};

struct breakdown {
    double began, since, entered; /* clock_now(): at first; the part at work;
                                     the last look at it */
    enum part part;
    double seconds[PARTS]; /* of parts that were left */
    struct trace *trace;   /* gets what is left from now on; NULL: nothing */
};

/* began: a clock_now() that counts as PART_INITIALISE since; 0: now. */
void breakdown_start(struct breakdown *, double began);

/* Ends the part at work and begins another (or goes on). Returns the one that
 * has ended, to come back to. NULL is allowed: nothing is measured. */
enum part breakdown_enter(struct breakdown *, enum part);

/* Takes so many seconds from the part at work and gives them to another: to what
 * other threads did while this one waited for them. NULL is allowed. */
void breakdown_charge(struct breakdown *, enum part, double seconds);

/* Seconds of parts 3 to 5. */
double breakdown_communication(const double seconds[PARTS]);

/* For the profile and traces, where parts 3 to 5 are "communication". */
const char *part_name(enum part);

/* Over the ranks of a job, each part by itself; backward is in forward. */
struct breakdown_sums {
    int nranks;
    double mean[PARTS], least[PARTS], most[PARTS];
};

/* The table, and {"read": ..., ...} with each number times scale. */
void breakdown_print(const struct breakdown_sums *, FILE *);
void breakdown_write(const double seconds[PARTS], double scale, FILE *);

#endif
