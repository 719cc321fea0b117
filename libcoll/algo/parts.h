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

/* What a rank keeps of the vector, halved round by round. */
enum { HALVINGS = 31 };
struct halving {
    int rounds;
    int partner[HALVINGS];
    struct window {
        int first, count;   /* chunks */
    } window[HALVINGS + 1]; /* before each round, and after the last */
};

/* Starts with so many chunks, a power of two; adds a round, in which the upper
 * or the lower half is kept and the partner keeps the other. */
struct halving halving_of(int nchunks);
void halving_add(struct halving *, int partner, bool upper);

/* The rounds forwards, as a reduce-scatter, then backwards, as an allgather.
 * Both return what they end with. `from`: IN or OUT, the rank's own vector, and
 * there after `ready`; the sums go to OUT. Takes as many slots as half of the
 * first window. */
step_id plan_halvings(struct plan *, const struct halving *, enum plan_buf from,
                      step_id ready);
step_id plan_doublings(struct plan *, const struct halving *, step_id ready);

/* An allreduce by these, on the largest power of two of the ranks; the others
 * fold in. list() adds the rounds of rank `me` of pow2. Fills an empty plan. */
void plan_folded_halving(struct plan *, const struct plan_shape *,
                         void (*list)(struct halving *, int pow2, int me));

/* n ranks: first, first + stride ... */
struct team {
    int first, stride, n;
};

/* In allreduce_direct.c. All of a team send to all others and hear from them at
 * once, but never more than the executor's window holds. Peers, and `me`, are
 * numbers in the team. */
struct exchange {
    struct team team;
    int me;
    struct place mine;
    struct place (*sent)(const struct exchange *, int peer);
    struct place (*heard)(const struct exchange *, int peer);
};

/* Returns the first of its steps, from which the two below find others. */
step_id plan_exchange(struct plan *, const struct exchange *, step_id ready);
step_id exchange_heard(const struct exchange *, step_id first, int peer);
step_id exchange_sent(const struct exchange *, step_id first, int peer);

/* In allreduce_direct.c: chunk 0 of all of a team, `mine` of member `me`,
 * summed at each in the order of the team, in PLAN_OUT. Takes PLAN_SUM and the
 * slots [0, n - 1). */
step_id plan_exchange_and_add(struct plan *, struct team, int me,
                              struct place mine, step_id ready);

/* In allreduce_recursive_multiplying.c. The largest number of ranks up to
 * nranks that is a product of numbers up to radix, as few of them as can be, the
 * largest first; 1 is the product of none, for which k[0] is 1. */
enum { MAX_FACTORS = 31 };
struct factors {
    int product, extra; /* and how many ranks are left */
    int n, k[MAX_FACTORS + 1];
};
struct factors plan_factors(int nranks, int radix);

/* In allreduce_recursive_multiplying.c and allreduce_dividing_multiplying.c:
 * whole vectors, or parts of them. Both fill an empty plan. */
void plan_multiplying(struct plan *, const struct plan_shape *, int radix);
void plan_dividing(struct plan *, const struct plan_shape *, int radix);

/* In barrier_dissemination.c: radix - 1 messages at once; fills an empty plan.
 */
void plan_dissemination(struct plan *, const struct plan_shape *, int radix);

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
