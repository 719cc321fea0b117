/* SPDX-License-Identifier: MIT */
/* What the planners of an alltoall by hosts share. Its blocks are all as long,
 * so in scratch they may lie anywhere: only in PLAN_IN and PLAN_OUT is a
 * block's number its place. */
#ifndef ALGO_BLOCKS_H
#define ALGO_BLOCKS_H

#include "algo/groups.h"

/* The innermost groups of ranks, from here on called hosts, in a circle. */
struct circle {
    struct groups groups;
    int d, n, mine; /* hosts are level d, so many; this rank's */
    struct range here;
    int me; /* of its ranks, from 0 on */
};
struct circle circle_of(const struct plan_shape *); /* has groups */

/* The ranks of the host so far behind this one, or before if negative. */
struct range circle_host(const struct circle *, int distance);
int range_size(struct range);

/* n blocks from a slot on are one message, or several where they are more than
 * there are ranks: so many, */
int blocks_messages(const struct plan *, int n);
/* of which these are one. */
void blocks_send(struct plan *, int peer, int slot, int n, int message,
                 step_id ready);
void blocks_recv(struct plan *, int peer, int slot, int n, int message);

/* Copies a run, no longer than there are ranks, to another slot, by way of
 * PLAN_SUM. */
step_id blocks_move(struct plan *, int slot, int to, int n, step_id ready);

/* Exchanges that follow one another: each needs what came in those before. */
struct stages {
    struct plan *plan;
    step_id first, awaited; /* this stage's first step; what came before this
                               one is there ... */
    step_id ready;          /* ... once this has finished */
};
void stages_next(struct stages *);
/* Returns `ready` of what came in the stages before. */
step_id stages_await(struct stages *);

/* An exchange in turns 1 to n - 1: what one rank tells in its turn i another
 * hears in its own turn i, and it tells at most a few messages. Receives are
 * posted some turns ahead, but never so many that they fill the executor's
 * window: then however many a turn has, all that is told gets under way. */
struct turns {
    int n;
    void *context;
    int (*count)(void *context, int turn); /* receives */
    void (*hear)(void *context, int turn);
    void (*tell)(void *context, int turn);
};
void blocks_exchange(const struct turns *);

#endif
