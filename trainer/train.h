/* SPDX-License-Identifier: MIT */
/* Training: what to do, where it is, and the loop. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"
#include "data/sampler.h"
#include "dist/strategy.h"
#include "evaluate.h"
#include "net/net.h"
#include "profile.h"
#include "report.h"
#include "update.h"

struct train_settings {
    const char *net_text, *data, *strategy, *optimiser;
    long epochs, steps;       /* steps > 0: so many in all, not epochs */
    long batch, global_batch; /* per rank; global_batch > 0 counts instead */
    long accumulate; /* so many batches make a step, with their gradients
                        added up; 0: one */
    long threads;             /* of this rank; 0: one */
    bool unbound;             /* leave it to the system where they run */
    uint64_t seed;
    bool augment;       /* change images by chance: read_augmented() */
    const char *kernel; /* as kernel_choose() was told, or NULL, */
    bool bf16;          /* and conv_allow_bf16(); here to be compared */
    struct optim_settings optim;
    double clip_norm, average; /* as of struct update */
    enum exchange exchange;    /* as of struct strategy */
    size_t bucket_bytes;
    struct schedule_settings schedule; /* train_open() fills in total, and
                                          every if it is 0: an epoch */
    const char *checkpoint;            /* NULL: none */
    long checkpoint_every;             /* steps; 0: once an epoch */
    const char *resume;                /* a file, or NULL */
    bool resume_optional;              /* start afresh if it does not exist */
    const volatile sig_atomic_t *stop; /* a signal's number, 0 or NULL */
};

struct train {
    struct train_settings settings;
    coll_comm *comm;
    int rank, nranks;
    int batch, pass; /* images of this rank: in a step, at once */
    long step, nsteps, epoch_steps; /* done, in all, in one epoch */
    struct dataset train, test;
    struct sampler sampler;
    int *cpus; /* for each thread; NULL: any */
    struct net net;
    struct strategy strategy;
    struct update update;
    struct arena sum; /* gradients of a step's passes; none if it has one */
    float *images; /* of this rank's batch */
    int *labels;
    double seconds, comm_seconds, images_done; /* of this run's steps */
    struct score score;                        /* the last evaluation */
    struct profile *profile; /* the caller's; NULL: not measured */
    char error[1024];
    char note[512]; /* of train_open(), for the user; "": none */
};

/* These return 0 or the program's exit status, with one line in error: 2 for
 * bad input, 1 for a failure, 128 + N after signal N. Every rank of the
 * communicator makes the same calls. */

/* Opens the data only, so that bad input is found before the job joins. The
 * strings of the settings must live as long as the train. */
int train_open_data(struct train *, const struct train_settings *);

/* Builds the rest and reads the checkpoint to resume from. The communicator
 * stays the caller's. */
int train_open(struct train *, coll_comm *);

/* Trains up to step `until` (at most nsteps), reporting each step; evaluates
 * at the end of each epoch and of training. report may be NULL. A checkpoint
 * is written at the end of every epoch, every checkpoint_every steps, at the
 * end and when stopped, never after a failure. */
int train_run(struct train *, long until, struct report *);

void train_close(struct train *);

/* Part of train_open(), which has set comm and strategy: chooses processors for
 * the threads, and binds the calling one, before there is memory to touch. */
int train_place(struct train *);

/* What a checkpoint says the images are: "cifar10", "cifar10 --augment". */
void train_data_name(const struct train *, char *name, size_t bytes);

/* Both set error and return the exit status: the given one; 1 with what the
 * library said and the step at which it did. */
__attribute__((format(printf, 3, 4))) int
train_fail(struct train *, int exit_status, const char *format, ...);
int train_comm_failed(struct train *, coll_status);

#endif
