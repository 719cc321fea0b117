/* SPDX-License-Identifier: MIT */
/* What the links of a job cost, as it measured them when it started and as jobs
 * before it did. A job may take 50 ms for it, and one in ten or so is wrong by
 * a quarter; the middle of several is not. (A job here is a communicator that
 * measures: a program's first, or one that is split off.)
 */
#ifndef COMM_LINKS_H
#define COMM_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "transport/sim.h"

/* Of one job, as in struct probe_groups and struct crowd. Figures that it has
 * none of are 0; inside.beta 0: none at all. */
struct links {
    struct sim_link inside, across, local;
    double shared, turn, machine;
};

/* And between which hosts: a hash of their names. */
struct links_line {
    uint64_t hosts;
    struct links links;
};

enum { LINKS_KEPT = 9 };

/* Of several jobs, the latest first. */
struct links_history {
    int n;
    struct links job[LINKS_KEPT];
};

/* Of links that two jobs measured, or one job twice: whether they may well be
 * the same, by what goes between hosts. */
bool links_alike(const struct links *, const struct links *);

/* Of each figure the middle one; of two, and so on, the greater of the two in
 * the middle. There is at least one job. */
struct links links_middle(const struct links_history *);

/* Puts what was measured latest first; of more than LINKS_KEPT the oldest goes.
 */
void links_add(struct links_history *, const struct links *latest);

/* Those stay that are like what was measured now. */
void links_keep_alike(struct links_history *, const struct links *now);

enum links_verdict {
    LINKS_SETTLED,   /* the middle, this job's own among them */
    LINKS_ONCE_MORE, /* unlike those before: measure again */
    LINKS_CHANGED,   /* that gave the same, so those before are of the past */
    LINKS_UNCERTAIN  /* nothing is like anything: what was measured now */
};

/* What a job counts with that has measured *now. before: there is one at least.
 * first: what it measured when it was told to measure again; else NULL.
 * repeats: it can measure again; if it cannot, three jobs before it are not
 * doubted. */
enum links_verdict links_settle(struct links *now,
                                const struct links_history *before,
                                const struct links *first, bool repeats);

/* As a line of the store: hosts; latency, time at each end and rate of messages
 * inside a group of hosts, across and in a host; and so on:
 *   links 91ca53af80d24be7 inside 11 us 2.5 us 0.12 GB/s across 30 us ...
 */
void links_print(const struct links_line *, FILE *);
bool links_parse(const char *line, struct links_line *);
/* Whether a line is to be one of those. */
bool links_begin(const char *line);

#endif
