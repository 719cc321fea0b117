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

#include "net/net.h"
#include "trace.h"

enum {
    PROFILE_KEEP = 1000,     /* medians are of so many last steps */
    PROFILE_TRACE_STEPS = 5, /* after the first; what a trace has */
};

/* Every moment of a step belongs to one of them. */
enum profile_part {
    PROFILE_READ,
    PROFILE_FORWARD,
    PROFILE_BACKWARD,
    PROFILE_COMMUNICATION,
    PROFILE_UPDATE,
    PROFILE_REST,
    PROFILE_PARTS
};
const char *profile_part_name(enum profile_part);

struct profile {
    struct net *net;
    struct net_clock clock;
    struct trace trace;
    /* The step at work. */
    double start, entered;
    enum profile_part part;
    double parts[PROFILE_PARTS]; /* seconds so far */
    size_t event;
    long begun;
    /* Sums over the steps that count, in seconds. */
    int images; /* that each had */
    long nsteps;
    double seconds, sums[PROFILE_PARTS];
    double *layer_sums;
    /* Seconds of the last `room` steps, for layer after layer. */
    long room;
    float *forward, *backward, *sorted;
};

/* Measures up to nsteps steps of a net; with a trace or without. -1: no
 * memory. The net must outlive the profile. */
int profile_open(struct profile *, struct net *, long nsteps, bool trace);
void profile_close(struct profile *);

/* These do nothing if the profile is NULL. A step begins in PROFILE_REST. step
 * is its number for the trace, images how many this rank had. */
void profile_begin(struct profile *, long step);
void profile_enter(struct profile *, enum profile_part);
void profile_end(struct profile *, int images);

/* Tables of layers, of parts of the step, and of memory. */
void profile_print(const struct profile *, size_t optimiser_bytes, FILE *);

#endif
