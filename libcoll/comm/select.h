/* SPDX-License-Identifier: MIT */
/* Which algorithm serves a call, and in which order of the ranks.
 *
 * Rank 0 prices every candidate at start (price.h) and all ranks take its
 * table; what operations then take corrects it (learn.h) with numbers that all
 * ranks have agreed on. So all choose alike, without a message for it.
 * COLL_ALGO and coll_comm_set_algorithm() put rules before both.
 */
#ifndef COMM_SELECT_H
#define COMM_SELECT_H

#include "comm/learn.h"
#include "comm/price.h"
#include "comm/rules.h"

/* What node/ offers where all ranks are on one host. */
struct select_node {
    int nranks; /* 0: nothing */
    /* The longest vector that NODE_INLINE is best for, and in an allreduce,
     * which is measured (inlined.h). */
    size_t inline_bytes, allreduce_bytes;
};

/* The candidates of half an octave of sizes, as learn.h numbers them. */
struct select_class {
    struct learn learn;
    uint8_t row[LEARN_CANDIDATES]; /* of prices */
    int n;                         /* 0: rules part the class */
    uint64_t ran; /* bit per candidate: timed once; of kinds that meet for it */
    bool times;   /* select_is_due() may say so */
    int told;     /* 1 + the best that was last explained */
    int passed, distance; /* operations since one was due, and from one that is
                             due to the next; see select_is_due() */
};

/* What is learned about is of one pool of rows: all that serve ANY_ORDER, or
 * those that serve IN_PAIRS. */
enum select_pool { POOL_ANY, POOL_PAIRS, NPOOLS };

struct select {
    struct prices prices;
    struct rules rules;
    struct select_node node;
    bool adapts; /* learns from what operations take */
    bool alone;  /* one rank: rules forbid it some algorithms, but not all */
    /* Made at first use. */
    struct select_class *class[NPOOLS][NKINDS][PRICE_HALVES];
    /* Bit per octave: it is served without a class, and that was explained. */
    uint64_t told[NKINDS];
};

struct select_choice {
    int algo; /* index into algos[] */
    enum layout_order order;
    int variant;      /* 1 << variant segments; of a plan */
    bool cut;         /* segments of the vector, see staged.h */
    bool keeps;       /* positions are the ranks, or hosts, also with a root */
    bool trial;       /* another one is held for best */
    double predicted; /* seconds; negative: not priced */
    enum select_pool pool;
    int class, candidate; /* for select_observe(); candidate -1: none */
};

void select_free(struct select *);

/* Takes new rules; what was learned is forgotten. */
coll_status select_rules(struct select *, const char *text, const char *source);

/* What is best by now, for an operation that is not run, or is not timed. Fails
 * with UNSUPPORTED if the rules forbid everything that fits. */
coll_status select_best(struct select *, enum coll_kind, size_t bytes,
                        struct select_choice *);

/* The same for what has to be combined in an order: by prices alone, but for
 * IN_PAIRS. uneven: parts differ in length, see below; then so, too. timed: as
 * select_next(). */
struct select_need {
    enum algo_order order;
    bool uneven, timed;
};
coll_status select_in_order(struct select *, enum coll_kind, size_t bytes,
                            struct select_need, struct select_choice *);

/* The same for parts that differ in length, so that plans by hosts cannot
 * serve: what is best, or the cheapest of the others. */
coll_status select_uneven(struct select *, enum coll_kind, size_t bytes,
                          struct select_choice *);

/* For one that is timed, which may be a trial. All ranks make the same calls of
 * this, of select_is_due() and of select_observe(), in the same order. Of a
 * kind that meets for it a candidate's first time is not observed if it is bad.
 */
coll_status select_next(struct select *, enum coll_kind, size_t bytes,
                        struct select_choice *);
void select_observe(struct select *, enum coll_kind,
                    const struct select_choice *, uint16_t code);

/* Whether the operation that now starts is to be timed, of a kind of which no
 * times get known without a meeting: each while learn_is_curious(), else the
 * one after 1, 2, 4 and so on, at last each 64th. Not where fewer than two have
 * prices, or the rules leave no barrier by a plan. To be asked once for
 * each operation, which it counts. */
bool select_is_due(struct select *, enum select_pool, enum coll_kind,
                   size_t bytes);

/* The barrier by a plan at which the ranks meet, as it is best by now. */
coll_status select_meeting(struct select *, struct select_choice *);

/* Whether a row of node/ serves this, which is not learned here. */
bool select_native(const struct select *, enum coll_kind, size_t bytes,
                   struct select_choice *);

/* How often a row was measured in half an octave, and what it takes; 0: never.
 */
int select_learned(const struct select *, int row, int half, int32_t *log_time);

double select_seconds(int32_t log_time);

#endif
