/* SPDX-License-Identifier: MIT */
/* What each candidate is expected to take: its actual plans, of all ranks
 * together, rehearsed on a simulation of the job's network.
 *
 * A candidate is an algorithm with an order of the ranks. Where an algorithm
 * pipelines, the number of segments that is best for the size comes with the
 * price. Sizes are in bytes of the whole vector: what one rank holds in the end
 * of an allgather, or at first of a reduce-scatter. They form classes, one an
 * octave; a class is priced at its middle, and each half of it has a choice of
 * its own, by what lies between the middles. Few classes are rehearsed, see
 * ladder.h, and of the candidates, most only where they come near the best. A
 * candidate with many messages that takes too long by the bound of its plans
 * (exec/bound.h) is not rehearsed: its price is then the bound.
 */
#ifndef COMM_PRICE_H
#define COMM_PRICE_H

#include "algo/algo.h"
#include "comm/ladder.h"
#include "comm/layout.h"
#include "comm/links.h"

enum {
    PRICE_CLASSES = 34, /* octaves, 1 byte to 16 GiB: what has a price */
    PRICE_HALVES = 2 * PRICE_CLASSES, /* of octaves: what has a choice */
    PRICE_ROWS = 192,                 /* more than any layout has candidates */
    PRICE_RANKS = 2048, /* beyond, it takes minutes to price them all */
    PRICE_VARIANTS = LADDER_VARIANTS,
    PRICE_NONE = INT16_MAX,
};

/* Log times are those of learn.h: 1/256 octaves above 100 ns. */
struct price_row {
    uint8_t algo, order; /* algos[algo]; enum layout_order */
    uint8_t twin;    /* the first row with the very same plans, or this one */
    uint8_t cut;     /* 1: by hosts, and the stages go by segments, not plans */
    uint8_t keeps;   /* enum algo_order: the most that it keeps, or can */
    uint64_t bounds; /* bit per class: it takes more than that, see bound.h */
    uint8_t variant[PRICE_CLASSES];  /* 1 << variant segments */
    int16_t log_time[PRICE_CLASSES]; /* PRICE_NONE: not priced */
    int16_t recalled[PRICE_HALVES];  /* that an earlier job measured, or none */
};

/* Travels from rank 0 to all. */
struct prices {
    int32_t nrows;
    uint32_t rehearsals; /* that it took */
    uint64_t layout;     /* digest of the layout that it is for, */
    struct links links;  /* and the links that it has */
    int32_t again; /* 1: nothing is priced, all are to measure once more */
    struct price_row row[PRICE_ROWS];
};

int16_t price_log(double seconds);
int price_class(size_t bytes);
size_t price_bytes(int class); /* the middle */

/* The half of an octave, 2 class or one more, and where it begins. */
int price_half(size_t bytes);
size_t price_half_from(int half);
/* At its middle, by its octave's and the neighbour's; integers only, so that
 * all ranks get the same. Or PRICE_NONE. */
int price_half_time(const struct price_row *, int half);

/* Seconds for just this size, on the line through the middles of its class and
 * of the nearer neighbour, or where that line would fall, in proportion to the
 * bytes; negative: not priced. */
double price_seconds(const struct price_row *, size_t bytes);

/* Whether an order makes sense for an algorithm in this layout. By hosts: where
 * the layout says so; collectives with a part for each rank also need as many
 * ranks on each. What combines in ONE_PASS does so among ranks, and by hosts
 * keeps less. */
bool price_fits(const struct layout *, const struct algo *, enum layout_order);

/* How many positions a plan has: ranks, or hosts. */
int price_positions(const struct layout *, enum layout_order);
/* Whether segments count: of the plan, or by hosts those in which it is run. */
bool price_pipelines(const struct layout *, const struct algo *,
                     enum layout_order);

/* What a job affords at start. Messages that share links cost more. */
#define PRICE_MAX_MESSAGES 2e5
#define PRICE_MAX_SECONDS  2.0
#define PRICE_NODE_SECONDS 0.05 /* where node/ serves all but forced plans */

/* messages: so many may be simulated in one rehearsal; a candidate that needs
 * more has no price, and is only taken when nothing else is allowed. seconds:
 * of this thread's processor time. What would take longer is left out, the
 * least promising first. */
struct price_limits {
    double messages, seconds;
    int in_pairs; /* 1: results are to be IN_PAIRS: price also what combines in
                     ONE_PASS, and most exactly what may serve them */
    int all;      /* 1: rehearse also what bounds rule out, to prove them */
    unsigned kinds; /* bit per enum coll_kind: no others; 0: all */
};
coll_status price_within(struct prices *, const struct layout *,
                         const struct price_limits *);

/* One candidate at one size. traffic: per position, by hosts as with one rank a
 * host; NULL: not wanted. Fails like rehearse(). */
coll_status price_one(const struct layout *, const struct algo *,
                      enum layout_order, int segments, size_t bytes,
                      struct sim_traffic *traffic, double *seconds);

#endif
