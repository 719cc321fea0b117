/* SPDX-License-Identifier: MIT */
/* Optimisers over flat arrays (rows of optimisers.def) and learning-rate
 * schedules (rows of schedules.def). */
#ifndef TRAINER_OPTIM_OPTIM_H
#define TRAINER_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stddef.h>

/* What an optimiser can be told besides the learning rate and decay. */
enum optim_number {
    OPTIM_MOMENTUM,
    OPTIM_BETA1,   /* how much of the mean gradient stays each step */
    OPTIM_BETA2,   /* and of the mean square */
    OPTIM_EPSILON, /* added to what is divided by */
    OPTIM_TRUST,   /* lars: a layer's rate by the size of its weights */
    OPTIM_NNUMBERS
};

struct optim_settings {
    double weight_decay;
    double numbers[OPTIM_NNUMBERS]; /* not finite: the optimiser's own */
};

enum { OPTIM_STATES = 2 };

/* n parameters of one step: w and state in place, g is read. */
struct optim_part {
    float *w;
    const float *g;
    float *state[OPTIM_STATES]; /* the first nstate of them, n floats each */
    size_t n;
    bool vector;  /* of one dimension: a bias, a scale */
    double *sums; /* two, of an optimiser that measures */
};

struct optim_ops {
    const char *name; /* "sgd" */
    int nstate;       /* floats of state per parameter, 0 before step 1 */
    unsigned uses;    /* bits 1 << enum optim_number */
    double numbers[OPTIM_NNUMBERS]; /* unless the settings say otherwise */
    /* NULL: step() takes any cut of the parameters. Else parts are of tensors,
     * or of parts of one; this is called first and adds to the part's sums,
     * which are then, for step(), those of the whole tensor. */
    void (*measure)(const struct optim_settings *, long number,
                    struct optim_part);
    /* lr is this step's; number is that of the step, from 1. The settings'
     * numbers are complete. */
    void (*step)(const struct optim_settings *, double lr, long number,
                 struct optim_part);
};

extern const struct optim_ops *const optimisers[];
extern const int noptimisers;
/* NULL for an unknown name, with what is valid in error. */
const struct optim_ops *optim_find(const char *name, char *error,
                                   size_t error_bytes);
/* Fills in the optimiser's own numbers. -1 with what is wrong in error. */
int optim_complete(const struct optim_ops *, struct optim_settings *,
                   char *error, size_t error_bytes);

/* |x|^2, in double and in an order of its own, whatever the machine. */
double optim_square(const float *x, size_t n);

enum { SCHEDULE_MILESTONES = 32 };

struct schedule_settings {
    const char *name; /* "fixed", "step", "cosine", ... */
    double lr, gamma, power;
    long every, warmup; /* warmup: linear over so many steps, */
    double from;        /* starting here */
    long total;         /* cosine, poly: reaches 0 at this step */
    int nmilestones;    /* multistep: rising steps */
    long milestones[SCHEDULE_MILESTONES];
};

/* The learning rate of step 0, 1, ... */
double schedule_lr(const struct schedule_settings *, long step);
/* NULL, or what is wrong with the settings and what would be right. */
const char *schedule_check(const struct schedule_settings *);
/* Reads "30000,60000". NULL, or what is wrong. */
const char *schedule_milestones(struct schedule_settings *, const char *text);

#endif
