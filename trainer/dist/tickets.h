/* SPDX-License-Identifier: MIT */
/* Which steps of a stretch are done by whom: who comes first takes the next
 * ones, so a slow worker does fewer and no image comes twice. Threads: any. */
#ifndef TRAINER_DIST_TICKETS_H
#define TRAINER_DIST_TICKETS_H

#include <pthread.h>
#include <stdint.h>

enum { STALENESS_MOST = 64 };

struct tickets {
    pthread_mutex_t lock;
    long next, end;    /* the next step to give away; after the last */
    long tau, at_once; /* that one gets: tickets_at_once() */
    int nworkers;
    /* Of all stretches: exchanges done, and of each worker, how many were when
     * it last read the centre. */
    uint64_t served, *seen;
    /* Exchanges by how many others were done since their worker's last look at
     * the centre; the last: so many, or more. */
    uint64_t staleness[STALENESS_MOST];
};

/* tau, or in a stretch of so few steps that some worker would get none, as many
 * as leave a part to each. */
long tickets_at_once(long n, long tau, int nworkers);
/* What a worker begins a stretch of n steps with, without asking: *first and,
 * returned, how many. 0: nothing. */
long tickets_first(long n, long at_once, int worker, long *first);
/* How many steps of such a stretch come with number `first`. */
long tickets_count(long n, long at_once, long first);

int tickets_open(struct tickets *, int nworkers, long tau); /* or -1 */
void tickets_close(struct tickets *);
/* A stretch of n steps, of which the first ones are the workers' already. */
void tickets_start(struct tickets *, long n);
/* Gives away as few more as end in whole rounds of the workers. */
void tickets_stop(struct tickets *);
/* 0, or the number, from 1, of the first of the steps that are given away. */
long tickets_take(struct tickets *);
/* A worker's change has been made to the centre; it reads the centre. */
void tickets_changed(struct tickets *, int worker);
void tickets_read(struct tickets *, int worker);

#endif
