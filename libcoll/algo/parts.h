/* SPDX-License-Identifier: MIT */
/* What several planners share. */
#ifndef ALGO_PARTS_H
#define ALGO_PARTS_H

#include <stdbool.h>

#include "plan/plan.h"

/* Reduce-scatter by recursive halving, allgather by recursive doubling. `far`:
 * the largest exchange at distance p/2, else at distance 1. Fills an empty
 * plan. */
void plan_halving_then_doubling(struct plan *, const struct plan_shape *,
                                bool far);

/* A run of at most n chunks that goes on at chunk 0 after chunk n - 1, in the
 * one or two pieces that a step can name. */
struct pieces {
    struct place piece[2];
    int n;
};
struct pieces plan_pieces(struct place run, int n);

/* In reduce_scatter_halving.c: sums chunk c of all n ranks at rank c, in
 * `result`, which is OUT(me) or SUM(me). n is at least 2. Takes the slots
 * [0, plan_halve_slots(n)). */
step_id plan_halve(struct plan *, int n, int me, struct place result);
int plan_halve_slots(int n);

/* In allgather_bruck.c: rank c's chunk c, there once `ready` has finished, to
 * all n ranks, in PLAN_OUT. mine: the buffer of what this rank sends. With
 * root_has_all rank 0 receives nothing and sends any chunk. */
void plan_double(struct plan *, int n, int me, enum plan_buf mine,
                 step_id ready, bool root_has_all);

#endif
