/* SPDX-License-Identifier: MIT */
/* The options of coll_train and its commands. */
#ifndef TRAINER_COMMAND_LINE_H
#define TRAINER_COMMAND_LINE_H

#include "programs/options.h"

struct options {
    const char *net, *data, *strategy, *schedule, *precision, *kernel, *bind;
    const char *centre, *wire, *prefetch, *delay, *shuffle, *factors;
    const char *optimizer, *milestones, *exchange;
    const char *log, *checkpoint, *resume, *plot, *safetensors, *trace,
        *predict;
    long epochs, steps, batch, global_batch, every, warmup, checkpoint_every;
    long seed, threads, accumulate;
    long tau, servers, test_every;
    size_t bucket;
    double lr, gamma, power, weight_decay, clip_norm, ema, alpha, rho, top, warmup_from;
    double momentum, beta1, beta2, epsilon, trust; /* NAN: not given */
    bool augment, deterministic, profile, breakdown, original_strict, shard, wire_always;
    bool partition;
};

extern const struct program train_program, eval_program, export_program;

/* The options of a command line and, for training, of its job file. Bad input
 * ends the program with status 2. The result lives as long as the process. */
const struct options *parse_train(int argc, char **argv);
const struct options *parse_eval(int argc, char **argv);
const struct options *parse_export(int argc, char **argv);

#endif
