/* SPDX-License-Identifier: MIT */
/* Which floats may lie at the same place, because they are never needed at the
 * same time. */
#ifndef TRAINER_NET_MEMORY_H
#define TRAINER_NET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Written at time `first` and last read at `last`. */
struct buffer {
    size_t floats;
    int first, last;
    size_t at; /* set: where it lies */
};

/* Places all; returns how many floats they take together, or 0 with nothing
 * placed if there is no memory for the plan itself. */
size_t memory_plan(struct buffer *, int count);

#endif
