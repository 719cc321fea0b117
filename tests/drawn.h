/* SPDX-License-Identifier: MIT */
/* Collective calls drawn by a seed, the same on all ranks, and what a rank
 * might make in the place of one by mistake. */
#ifndef TESTS_DRAWN_H
#define TESTS_DRAWN_H

#include <stdint.h>

#include "calls.h"

enum { DRAWN_RANKS = 4, DRAWN_TEXT = 160 };

/* Numbers below a bound, from a state that is one of all files. */
extern uint64_t drawn_state;
unsigned drawn_below(unsigned below);

struct drawn {
    enum kind kind;
    int uneven; /* its v-form */
    coll_dtype dtype;
    coll_op op;
    int root;
    size_t count;
    /* Of a v-call, what rank i sends rank j; of all but alltoall_v in the first
     * row, each rank's part. */
    size_t counts[DRAWN_RANKS][DRAWN_RANKS];
};

/* Of n ranks. */
struct drawn drawn_even(int n);
struct drawn drawn_uneven(int n);

/* What rank `odd` says instead: one thing only differs, most of the time. */
struct drawn drawn_change(struct drawn, int odd, int n);

/* Whether nothing differs that others can see of what `odd` says. */
int drawn_same(const struct drawn *, const struct drawn *, int odd, int n);

/* Makes the call on memory of the file's own. */
coll_status drawn_make(const struct drawn *, coll_comm *,
                       coll_request **request);

/* For messages; one of a few static texts. */
const char *drawn_print(const struct drawn *, int n);

#endif
