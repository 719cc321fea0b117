/* SPDX-License-Identifier: MIT */
/* What one run of coll_bench asks for, knows and finds. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

struct bench_options {
    size_t min_bytes, max_bytes;
    double factor;
    long iterations; /* 0: as many as fit into a time */
    long warmup, root;
    coll_dtype dtype;
    coll_op op;
    const char *algorithm; /* NULL: the library's choice; "all": each */
    bool in_place, cold, check_every;
    const char *json, *csv, *plot, *baseline; /* paths or NULL */
};

/* One row. Times in seconds. */
struct bench_result {
    size_t bytes, count;
    const char *algorithm; /* the library's static storage */
    double min, p50, p99, max;
    double predicted, limit;
    long iterations;
    unsigned long long wrong; /* elements, over all ranks */
    double before;            /* p50 of the baseline; 0: none */
};

/* What the machine allows, measured at start. 0: does not apply. */
struct bench_limits {
    double line_seconds;          /* a cache line from core to core */
    double link_bytes_per_second; /* one stream between two hosts */
};

struct bench {
    struct bench_options options;
    struct bench_limits limits;
    char machine[160];
    struct bench_result *results;
    int nresults;
};

/* bytes / p50, and that times 2 (n - 1) / n: what each rank's link must carry
 * in each direction if no link carries more than another. In GB/s. */
double bench_algbw(const struct bench_result *);
double bench_busbw(const struct bench_result *, int nranks);

#endif
