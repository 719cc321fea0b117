/* SPDX-License-Identifier: MIT */
/* Which algorithm serves a call.
 *
 * At start rank 0 rehearses every algorithm at a ladder of sizes on the
 * simulator, with the job's ranks and hosts and an alpha-beta-gamma model of
 * its links, and all ranks take its table: so all choose alike. COLL_ALGO and
 * coll_comm_set_algorithm() put rules before it.
 *
 * Sizes are in bytes of the whole vector: what one rank holds in the end of an
 * allgather, or at first of a reduce-scatter.
 */
#ifndef COMM_SELECT_H
#define COMM_SELECT_H

#include "algo/algo.h"

/* Variants of a plan by number of segments: 1, 2, 4, 8, 16. */
enum { SELECT_SEGMENTS = 5, SELECT_SIZES = 16, SELECT_MAX_RULES = 32 };

/* Link speeds; which one joins two ranks depends on their hosts. */
struct select_model {
    double local_alpha, local_beta;   /* inside a host */
    double remote_alpha, remote_beta; /* between hosts */
    double gamma;
};

/* One rung of the ladder, 4^(i + 1) bytes. Travels: fixed widths. */
struct select_entry {
    float seconds[32]; /* by algorithm; negative: does not fit */
};

struct select_rule {
    enum coll_kind kind;
    size_t min_bytes, max_bytes; /* [min, max) */
    uint64_t algos;              /* bit i: algos[i] may serve */
};

/* What node/ offers where all ranks are on one host. */
struct select_node {
    int nranks;          /* 0: nothing */
    size_t inline_bytes; /* the longest vector that NODE_INLINE is best for */
};

struct select {
    struct select_entry table[SELECT_SIZES];
    struct select_rule rules[SELECT_MAX_RULES];
    int nrules;
    struct select_node node;
};

struct select_choice {
    int algo;         /* index into algos[] */
    int variant;      /* 1 << variant segments; of a plan */
    double predicted; /* seconds */
};

/* Parses COLL_ALGO's words into rules (replacing those there are; unchanged on
 * failure). source is named in the sentence of an error. */
coll_status select_parse(struct select *, const char *text, const char *source);

/* Fills the table; host_of as in struct transport_job. */
coll_status select_price(struct select *, int nranks, const uint64_t *host_of,
                         const struct select_model *);

/* Fails with UNSUPPORTED if the rules forbid everything that fits. */
coll_status select_algorithm(const struct select *, enum coll_kind, int nranks,
                             size_t bytes, struct select_choice *);

#endif
