/* SPDX-License-Identifier: MIT */
/* The v-calls as their tests call them: with parts of lengths drawn from a seed
 * and with values whose result is known. */
#ifndef TESTS_UNEVEN_CALLS_H
#define TESTS_UNEVEN_CALLS_H

#include "comm/comm.h"

enum { MAX_RANKS = 9 };

struct call {
    int rank, n, root;
    enum coll_kind kind;
    coll_dtype dtype;
    coll_op op;
    bool in_place, apart, shared; /* memory of coll_mem_alloc() */
    size_t counts[MAX_RANKS], displs[MAX_RANKS];
    size_t before[MAX_RANKS + 1], room; /* elements */
    unsigned char *all, *part;
};

/* Draws its parts, and fills in what goes in; rank, n and kind are set. */
void make(struct call *, uint64_t seed, size_t longest);
/* What the call was given may change as soon as it returns, and does. */
coll_status start(const struct call *, coll_comm *, coll_request **);
/* As a rank_fn: what came out is right, and nothing else was written. */
int check(const struct call *);
void give_back(const struct call *);

/* One call from its making to its end, as a rank_fn; of some seeds also
 * started again and again. */
int try(coll_comm *, enum coll_kind, uint64_t seed, size_t longest);
/* Of many lengths, beside even calls, and with a memory that both kinds
 * share. */
int try_lengths(coll_comm *, enum coll_kind);

#endif
