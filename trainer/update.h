/* SPDX-License-Identifier: MIT */
/* From gradients to parameters: clipping, the optimiser, a moving average. */
#ifndef TRAINER_UPDATE_H
#define TRAINER_UPDATE_H

#include "net/net.h"
#include "optim/optim.h"

struct update {
    const struct optim_ops *optim;
    struct optim_settings settings; /* complete: optim_complete() */
    double
        clip_norm; /* gradients longer than that are shortened to it; 0: none */
    double average; /* how much of the mean of the weights stays each step,
                       from which evaluations and exports are; 0: no mean */
    /* The optimiser's arrays, then the mean: each as long as the parameters. */
    struct arena state;
};

/* Of a net that has its first weights; the mean starts as these. -1: no memory.
 */
int update_open(struct update *, const struct net *);
void update_close(struct update *);

/* Step `number`, from 1: moves the net's parameters by its gradients. */
void update_step(struct update *, struct net *, double lr, long number);

/* Exchanges the parameters and their mean; nothing if there is no mean. */
void update_swap(struct update *, struct net *);

#endif
