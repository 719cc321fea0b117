/* SPDX-License-Identifier: MIT */
/* What the links of a job cost, as it measured them when it started and as jobs
 * before it did. A job may take 50 ms for it, and one in ten or so is wrong by
 * a quarter; of several the middle is not.
 */
#ifndef COMM_LINKS_H
#define COMM_LINKS_H

#include <stdio.h>

#include "comm/layout.h"

/* Of one job, as in struct probe_groups and struct crowd. Figures that it has
 * none of are 0; inside.beta 0: none at all. */
struct links {
    struct sim_link inside, across, local;
    double shared, turn, machine;
};

enum { LINKS_KEPT = 9 };

/* Of several jobs, the latest first. */
struct links_history {
    int n;
    struct links job[LINKS_KEPT];
};

/* Of links that two jobs measured, or one job twice: whether they may well be
 * the same. */
bool links_alike(const struct links *, const struct links *);

/* The middle of each figure. There is at least one job. */
struct links links_middle(const struct links_history *);

/* Adds what was measured after all that is there; of more than LINKS_KEPT the
 * oldest goes. */
void links_add(struct links_history *, const struct links *latest);

/* As a line of the store: links inside 11 us 2.5 us 0.12 GB/s across ... */
void links_print(const struct links *, FILE *);
bool links_parse(const char *line, struct links *);
/* Whether a line is to be one of those. */
bool links_begin(const char *line);

#endif
