/* SPDX-License-Identifier: MIT */
/* From gradients to parameters: clipping, the optimiser, a moving average. */
#ifndef TRAINER_UPDATE_H
#define TRAINER_UPDATE_H

#include "dist/common.h"
#include "dist/strategy.h"
#include "net/net.h"
#include "optim/optim.h"

struct update {
    const struct optim_ops *optim;
    struct optim_settings settings; /* complete: optim_complete() */
    double
        clip_norm; /* gradients longer than that are shortened to it; 0: none */
    double average; /* how much of the mean of the weights stays each step,
                       from which evaluations and exports are; 0: no mean */
    struct strategy *sharing; /* whose shard is this rank's part; NULL: all */
    size_t first, count;      /* the parameters that this rank moves: */
    struct common common; /* with those that have the same memory, if any: */
    bool joined;          /* somewhere in the job, which all ranks know */
    /* The optimiser's arrays, then the mean: each `count` long. */
    struct arena state;
    /* For an optimiser that measures tensors. */
    struct tensor_part *tensors;
    double *sums; /* two of each */
    int ntensors;
};

/* Of a net that has its first weights; the mean starts as these. The strategy
 * is open; NULL: there is one rank. -1: no memory. */
int update_open(struct update *, const struct net *, struct strategy *);
void update_close(struct update *);

/* Once the weights and the state of all ranks are the same, and before their
 * first step: from then on near ranks have them in common, and each moves its
 * part, if that pays. On all ranks, on all of which it fails. update_part()
 * makes them each one's own again, before the net or the communicator ends. */
coll_status update_join(struct update *, struct net *, struct strategy *);
void update_part(struct update *);

/* What follows fails as the strategy's sums do, if parameters are shared out or
 * common, and then is called by all ranks. */

/* Step `number`, from 1: moves the net's parameters by its gradients, of which
 * only this rank's part counts. */
coll_status update_step(struct update *, struct net *, double lr, long number);

/* A bit of such a step for who waits for sums: layers that have factors, of all
 * images, move without them, if near ranks have the weights in common. False:
 * nothing is left of it but what needs the sums, for update_step(). */
bool update_some(struct update *, struct net *, double lr, long number);

/* The same for parameters that are neither shared out nor common, without
 * clipping: of whole layers, so that all slices together are update_step(). */
coll_status update_slice(struct update *, struct net *, double lr, long number,
                         size_t first, size_t count);

/* What update_step() would add to the parameters by plain gradient descent, in
 * place of the gradients: -lr (G + decay W). */
void update_make_step(const struct update *, struct net *, double lr);

/* Exchanges the parameters and their mean; nothing if there is no mean. */
coll_status update_swap(struct update *, struct net *);

/* The state of all ranks: how many floats, from a vector of as many, and to
 * one, which is only written at rank 0 and may be NULL elsewhere. */
size_t update_floats(const struct update *, const struct net *);
void update_take(struct update *, const struct net *, const float *from);
coll_status update_collect(const struct update *, const struct net *,
                           float *to);

#endif
