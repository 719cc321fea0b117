/* SPDX-License-Identifier: MIT */
/* Which ranks the others wait for. */
#ifndef TRAINER_STRAGGLERS_H
#define TRAINER_STRAGGLERS_H

#include <stdbool.h>
#include <stdio.h>

struct straggler {
    long steps;  /* in which it was the slowest */
    double late; /* seconds in all of these */
};

struct stragglers {
    int nranks;
    long nsteps;
    struct straggler *ranks;
};

int stragglers_open(struct stragglers *, int nranks); /* 0, or -1: no memory */
void stragglers_close(struct stragglers *);

/* Of a step in which each of two or more ranks worked so many seconds: returns
 * the slowest one, the first of equals. *late: by how much it took longer than
 * the others do on average. */
int stragglers_step(struct stragglers *, const double *worked, double *late);

/* Whether a rank was the slowest more often than chance explains, if all were
 * alike: in fewer than one of a hundred jobs any would be named. */
bool stragglers_often(const struct stragglers *, int rank);

/* A line for each of these ranks, or one that says there is none; and the same
 * as a JSON list. Nothing to say of one rank. */
void stragglers_print(const struct stragglers *, FILE *);
void stragglers_write(const struct stragglers *, FILE *);

#endif
