/* SPDX-License-Identifier: MIT */
/* Where the time of steps goes, and what memory holds: the numbers behind
 * --profile and --trace, of one rank.
 *
 * The first step of a run is left out, as it is the one that meets cold caches
 * and new pages; so are steps with fewer images than others, as the last of an
 * epoch may be. Memory is taken in profile_open() only.
 */
#ifndef TRAINER_PROFILE_H
#define TRAINER_PROFILE_H

#include <stdio.h>

#include "breakdown.h"
#include "net/net.h"
#include "trace.h"
#include "update.h"

enum {
    PROFILE_KEEP = 1000,     /* medians are of so many last steps */
    PROFILE_TRACE_STEPS = 5, /* after the first; what a trace has */
};

struct profile {
    struct net *net;
    struct breakdown *time;
    struct net_clock clock;
    struct trace trace;
    /* The step at work. */
    double start;
    double before[PARTS]; /* seconds until it began */
    size_t event;
    long begun;
    /* Sums over the steps that count, in seconds. */
    int images; /* that each had */
    long nsteps;
    double seconds, sums[PARTS];
    double *layer_sums;
    /* Seconds of the last `room` steps, for layer after layer. */
    long room;
    float *forward, *backward, *sorted;
};

/* Measures up to nsteps steps of a net; with a trace or without. -1: no
 * memory. Net and breakdown must outlive the profile. */
int profile_open(struct profile *, struct net *, struct breakdown *,
                 long nsteps, bool trace);
void profile_close(struct profile *);

/* Both do nothing if the profile is NULL. A step begins and ends when
 * PART_REST is entered, right before these. step is its number for the trace,
 * images how many this rank had. */
void profile_begin(struct profile *, long step);
void profile_end(struct profile *, int images);

/* Tables of layers, of parts of the step, of memory, and of what changes its
 * layout. */
void profile_print(const struct profile *, const struct update *, FILE *);

#endif
