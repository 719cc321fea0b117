/* SPDX-License-Identifier: MIT */
/* What one run of coll_bench asks for, knows and finds. */
#ifndef BENCH_H
#define BENCH_H

#include "collective.h"

/* Of COLL_DETERMINISM. */
enum { BENCH_MODES = 4 };
extern const char *const bench_mode_names[BENCH_MODES];

struct bench_options {
    bool collectives[NCOLLECTIVES]; /* which are to be measured */
    size_t min_bytes, max_bytes;
    double factor;
    long iterations; /* 0: as many as fit into a time */
    long warmup, root;
    double pause; /* ns for each byte, before an iteration */
    coll_dtype dtype;
    coll_op op;
    const char *algorithms; /* NULL: the library's choice; "all": each; else
                               names with commas between them, of which
                               "auto" is the library's choice */
    const char *memory;     /* "heap" or "malloc" */
    bool in_place, cold, check_every, overlap;
    const char *determinism; /* NULL, or names of modes with commas */
    bool modes[BENCH_MODES]; /* those, and off */
    long group;              /* calls in one; 0: not asked for */
    const char *json, *csv, *plot, *baseline; /* paths or NULL */
};

/* Of --overlap, in seconds: the operation, arithmetic of about that length, and
 * the arithmetic while the operation is under way. 0: not asked for. */
struct bench_overlap {
    double alone, compute, both;
};

/* Of --group, in seconds: all its calls in a group, and one after another. 0:
 * not asked for. */
struct bench_group {
    double together, alone;
};

/* Of --determinism: a mode, what it runs, and its p50. name NULL: no more. */
struct bench_mode {
    const char *name, *algorithm; /* static storage */
    double p50;
};

/* One row. Times in seconds. */
struct bench_result {
    enum collective collective;
    size_t bytes, count;   /* all of S, and as the call has it */
    const char *algorithm; /* static storage; "auto": nobody says */
    double min, p50, p99, max;
    double predicted, limit; /* 0: unknown */
    const char *limit_by;    /* which bound, static storage */
    double cpu_seconds;      /* of all ranks, over all iterations */
    double moved;            /* bytes an iteration, by the busiest rank */
    long iterations;
    unsigned long long wrong; /* elements, over all ranks */
    double before;            /* p50 of the baseline; 0: none */
    struct bench_overlap overlap;
    struct bench_group group;
    struct bench_mode modes[BENCH_MODES]; /* off first */
};

/* Of what machine the limits are. */
struct bench_limits {
    bool node;                    /* the ranks of each host share memory */
    bool memory;                  /* and there was room for the vectors */
    bool yields;                  /* a host has more ranks than CPUs */
    double link_bytes_per_second; /* one stream between two hosts; 0: none */
};

struct bench {
    struct bench_options options;
    struct bench_limits limits;
    char machine[160];
    struct bench_result *results;
    int nresults;
};

/* bytes / p50, and that times collective_busbw(). In GB/s. */
double bench_algbw(const struct bench_result *);
double bench_busbw(const struct bench_result *, int nranks);

/* 100 limit / p50: 100 is as fast as the machine allows; 0 if unknown. */
double bench_percent(const struct bench_result *);

/* How much of the operation the arithmetic hides, in percent of the shorter of
 * the two: 100 is all of it, negative says that one delays the other. */
double bench_hidden(const struct bench_overlap *);

/* What a row of this collective has in the columns dtype and op. */
const char *bench_dtype(const struct bench *, enum collective);
const char *bench_op(const struct bench *, enum collective);

#endif
