/* SPDX-License-Identifier: MIT */
/* What a rank expects, of a program that has its `rank` and its `comm`: says
 * what is not so and ends with status 1. */
#ifndef TESTS_EXPECT_RANKS_H
#define TESTS_EXPECT_RANKS_H

#include <stdio.h>
#include <stdlib.h>

#include "coll/coll.h"

#define EXPECT(condition, ...)                                                 \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "rank %d: line %d: %s: ", rank, __LINE__,          \
                    #condition);                                               \
            fprintf(stderr, __VA_ARGS__);                                      \
            fprintf(stderr, ": %s\n", coll_last_error(comm));                  \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#endif
