/* SPDX-License-Identifier: MIT */
/* A collective by its plans, with data: all ranks in one thread, their messages
 * carried by the simulator, in its order. What the library does around a plan
 * is done here too. Names, not the enums of algo.h, as coll_bench has its own.
 */
#ifndef TESTS_SIMULATED_H
#define TESTS_SIMULATED_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/coll.h"

struct simulated {
    int nranks, root;
    size_t count;           /* as the call says it */
    const size_t **lengths; /* of a v-call: per rank, those of its parts, which
                               are as the call says them, one after another */
    coll_dtype dtype;
    coll_op op;
    bool in_place;
    char **in, **out; /* per rank, what the call gets */
    unsigned turn;    /* another one: another number of segments, groups of the
                         ranks or none, another order of messages */
};

/* Every algorithm that has plans, from 0 to simulated_n - 1; NULL: this one is
 * not of that collective, or not for so many ranks, or would have to know the
 * lengths that a v-call says to two of them. */
extern const int simulated_n;
const char *simulated_algorithm(int i, const char *collective, int nranks);

coll_status simulate(int algorithm, const struct simulated *);

#endif
