/* SPDX-License-Identifier: MIT */
/* What one run of conv_bench knows and finds, and how it tells it. */
#ifndef TRAINER_BENCH_RESULTS_H
#define TRAINER_BENCH_RESULTS_H

#include "bench/command_line.h"
#include "bench/convs.h"

/* One pass of one shape. Times in seconds. */
struct bench_result {
    const struct net_conv *of;
    enum conv_pass pass;
    const char *kernel, *isa;
    const char *way;    /* of a kernel that has several; or NULL */
    const char *cannot; /* why there are no figures; NULL: there are */
    long runs;          /* 0: only checked */
    double min, p50;
    double peak;         /* flops a second that `isa` allows */
    double error, bound; /* relative to the largest number */
};

struct bench {
    const struct bench_options *options;
    char machine[160];
    const char *gemm_isa; /* which OpenBLAS uses */
    struct crew *crew;
    struct arena other; /* memory for --cold */
    struct net_convs convs;
    struct bench_result *results;
    int nresults;
};

/* Over the whole net: each result as often as the net has it. */
struct bench_sum {
    int convolutions, missing; /* measured; of those that cannot be */
    double seconds, flops, percent;
};

struct bench_sum bench_sum(const struct bench *, enum conv_pass);

/* A second; 0 if only checked. */
double bench_flops(const struct bench_result *);
double bench_percent(const struct bench_result *);

/* Whether the error is above its bound; and how many are. */
bool bench_wrong(const struct bench_result *);
int bench_wrongs(const struct bench *);

/* Whether training never needs this pass of that shape. */
bool bench_leaves_out(const struct net_conv *, enum conv_pass);

/* table.c: lines with # say what was measured and how; then a row each. */
void table_head(const struct bench *);
void table_row(const struct bench *, const struct bench_result *);
void table_foot(const struct bench *);
/* The shapes instead. */
void table_shapes(const struct bench *);

/* json.c: the format "conv_bench 1". -1 with one line in error. */
int json_write(const struct bench *, const char *path, char *error,
               size_t error_bytes);

/* plot.c: bars, as a PNG. The same. */
int plot_bars(const struct bench *, const char *path, char *error,
              size_t error_bytes);

#endif
