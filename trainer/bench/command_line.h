/* SPDX-License-Identifier: MIT */
/* The options of conv_bench. */
#ifndef TRAINER_BENCH_COMMAND_LINE_H
#define TRAINER_BENCH_COMMAND_LINE_H

#include "kernels/conv.h"
#include "programs/options.h"

struct bench_options {
    const char *net;
    const char *json, *plot; /* may be NULL */
    long batch, threads;
    long iterations;                  /* 0: as many as fit into `seconds` */
    double seconds;                   /* of a row */
    const struct conv_method *method; /* NULL: what the trainer would take */
    const char *isa;                  /* which conv_use() then has */
    const char *dtype;
    bool bf16; /* what it says */
    bool pass[CONV_PASSES];
    bool cold;        /* caches before each run */
    bool list, check; /* only show the shapes; only check */
};

extern const struct program conv_bench_program;

/* Bad input ends the program with status 2. The result lives as long as the
 * process. */
const struct bench_options *bench_parse(int argc, char **argv);

/* "fwd", "bwd_data", "bwd_weights". */
const char *pass_name(enum conv_pass);

#endif
