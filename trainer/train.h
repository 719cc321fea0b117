/* SPDX-License-Identifier: MIT */
/* Training: what to do, where it is, and the loop. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "breakdown.h"
#include "data/dataset.h"
#include "dist/collect.h"
#include "dist/strategy.h"
#include "evaluate.h"
#include "loader.h"
#include "net/net.h"
#include "partition.h"
#include "profile.h"
#include "report.h"
#include "stragglers.h"
#include "update.h"

struct train_settings {
    const char *net_text, *data, *strategy, *optimiser;
    const char *net_name;     /* for messages; NULL: it has none */
    long epochs, steps;       /* steps > 0: so many in all, not epochs */
    long batch, global_batch; /* per rank; global_batch > 0 counts instead */
    long accumulate; /* so many batches make a step, with their gradients
                        added up; 0: one */
    long threads;    /* of this rank; 0: one */
    bool unbound;    /* leave it to the system where they run */
    uint64_t seed;
    int delay_rank; /* an experiment: this one sleeps so long in each of its */
    double delay_seconds; /* steps, if that is above 0 */
    bool augment;         /* change images by chance: read_augmented() */
    enum shuffle shuffle;
    enum prefetch prefetch;
    bool
        partition; /* all memory of a rank is in the NUMA node of its threads */
    const char *kernel; /* as kernel_choose() was told, or NULL, */
    bool bf16;          /* and conv_allow_bf16(); here to be compared */
    struct optim_settings optim;
    double clip_norm, average; /* as of struct update */
    struct strategy_settings
        strategy_settings;             /* what only some strategies use */
    struct schedule_settings schedule; /* train_open() fills in total, and
                                          every if it is 0: an epoch */
    const char *checkpoint;            /* NULL: none */
    long checkpoint_every;             /* steps; 0: once an epoch */
    long test_every;                   /* likewise */
    const char *resume;                /* a file, or NULL */
    bool resume_optional;              /* start afresh if it does not exist */
    const volatile sig_atomic_t *stop; /* a signal's number, 0 or NULL */
    double began; /* clock_now() of the program; 0: train_open_data() */
};

/* What the ranks sum after each step: loss, right answers, ranks asked to stop;
 * rank 0's vote. What each has worked follows. */
enum sum { SUM_LOSS, SUM_CORRECT, SUM_STOP, SUM_VOTE, SUMS };

struct train {
    struct train_settings settings;
    coll_comm *comm;
    int rank, nranks, nworkers; /* the first ranks have shares of the images */
    int batch, pass;            /* images of this rank: in a step, at once */
    long step, nsteps, epoch_steps; /* done, in all, in one epoch */
    struct dataset train, test;     /* test: ops is NULL if there is none */
    struct loader loader;
    int *cpus;                  /* for each thread; NULL: any */
    struct partition partition; /* and how many NUMA nodes the machine has, */
    int nodes;                  /* if settings.partition */
    struct net net;
    struct strategy strategy;
    struct update update;
    struct arena sum; /* gradients of a step's passes; none if it has one */
    /* Of several ranks: what the net of this one keeps without learning it, */
    struct arena own_state;
    bool averaged; /* while the mean over the ranks is in its place */
    double *sums;  /* of a step over the ranks: enum sum, each one's work */
    struct stragglers stragglers;
    struct {
        bool waits;   /* weights from `moved` on have yet to move, */
        size_t moved; /* by a step with this rate and number */
        double lr;
        long number;
        struct net_need need;
    } late;
    double met, exchanged; /* clock_now() when all last met; seconds of parts
                              3 and 5 by then */
    double seconds, comm_seconds, images_done; /* of this run's steps */
    struct score score;                        /* the last evaluation */
    struct breakdown time;
    struct profile *profile; /* the caller's; NULL: not measured */
    char error[1024];
    char note[512]; /* of train_open(), for the user; "": none */
};

/* These return 0 or the program's exit status, with one line in error: 2 for
 * bad input, 1 for a failure, 128 + N after signal N. Every rank of the
 * communicator makes the same calls. */

/* Opens the data only, for what the net takes, so that bad input is found
 * before the job joins. The strings of the settings must live as long as the
 * train. */
int train_open_data(struct train *, const struct train_settings *);

/* Builds the rest and reads the checkpoint to resume from. The communicator
 * stays the caller's. */
int train_open(struct train *, coll_comm *);

/* Trains up to step `until` (at most nsteps), reporting each step; evaluates
 * at the end of each epoch and of training. report may be NULL. A checkpoint
 * is written at the end of every epoch, every checkpoint_every steps, at the
 * end and when stopped, never after a failure. */
int train_run(struct train *, long until, struct report *);

/* Where the time of all ranks has gone until now; all call it. */
int train_breakdown(struct train *, struct breakdown_sums *);

/* What struct strategy_ops says of staleness; all call it. *has: whether the
 * strategy knows. */
int train_staleness(struct train *, bool *has, uint64_t *counts);

/* While the communicator is there. */
void train_close(struct train *);

/* What train_run() does at the end of an epoch: sets score, on all ranks, to
 * NAN where there are no test images. */
int train_evaluate(struct train *);

/* Parts of train_run(). Fills the gradients and returns the summed loss, of
 * which not_finite sets error. */
double train_learn(struct train *, const struct batch *, int *ncorrect);
bool train_meanwhile(void *train); /* as strategy.meanwhile */
int train_not_finite(struct train *, double loss);
int train_unread(struct train *); /* loader_take() gave none */
/* After a step, on all ranks: whether a checkpoint is due, or an evaluation
 * after so many steps; whether one is now, which then goes to the point. Writes
 * the checkpoint. */
bool train_saves(const struct train *, bool stopped);
bool train_tests(const struct train *, long step);
int train_score(struct train *, bool stopped, struct report_point *);
int train_save(struct train *);
/* Before a step: the net keeps this rank's own state again. */
void train_take_back(struct train *);
/* After a signal to some rank: sets error and returns the exit status. */
int train_stopped(struct train *);
/* What train_run() does where the strategy has workers run by themselves. */
int train_run_apart(struct train *, long until, struct report *);

/* What a checkpoint has of each rank: of ranks that learn apart, while the
 * centre is shown, all they learn; what the strategy keeps, if it does; and
 * own_state. */
bool train_has_own(const struct train *);
struct floats train_own_floats(const struct train *);

/* Part of train_open(), which has set comm and strategy: chooses processors for
 * the threads, and binds the calling one, before there is memory to touch. */
int train_place(struct train *);

/* Further parts, if settings.partition: lets memory come from the node of the
 * threads; says whether what all ranks need there fits. */
int train_partition(struct train *);
int train_partition_fits(struct train *);

/* What a checkpoint says the images and the strategy are: "cifar10 --augment",
 * "sync", "async-sgd --servers 2". */
void train_data_name(const struct train *, char *name, size_t bytes);
void train_strategy_name(const struct train *, char *name, size_t bytes);

/* Both set error and return the exit status: the given one; 1 with what the
 * library said and the step at which it did. */
__attribute__((format(printf, 3, 4))) int
train_fail(struct train *, int exit_status, const char *format, ...);
int train_comm_failed(struct train *, coll_status);

#endif
