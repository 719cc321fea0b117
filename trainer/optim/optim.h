/* SPDX-License-Identifier: MIT */
/* Optimisers over flat arrays (rows of optimisers.def) and learning-rate
 * schedules (rows of schedules.def). */
#ifndef TRAINER_OPTIM_OPTIM_H
#define TRAINER_OPTIM_OPTIM_H

#include <stddef.h>

struct optim_settings {
    double lr, momentum, weight_decay; /* decay: L2, added to the gradient */
};

struct optim_ops {
    const char *name; /* "sgd" */
    int nstate;       /* floats of state per parameter */
    /* One step: w and state in place; g is read. n parameters; state is
     * nstate arrays of n floats. lr is this step's. */
    void (*step)(const struct optim_settings *, double lr, float *w,
                 const float *g, float *state, size_t n);
};

extern const struct optim_ops *const optimisers[];
extern const int noptimisers;
const struct optim_ops *optim_find(const char *name);

struct schedule_settings {
    const char *name;    /* "fixed", "step", "cosine" */
    double lr, gamma;    /* step: lr *= gamma every `every` steps */
    long every, warmup;  /* warmup: linear from 0 over so many steps */
    long total;          /* cosine: reaches 0 at this step */
};

/* The learning rate of step 0, 1, ... */
double schedule_lr(const struct schedule_settings *, long step);
/* NULL, or what is wrong with the settings and what would be right. */
const char *schedule_check(const struct schedule_settings *);

#endif
