/* SPDX-License-Identifier: MIT */
/* When the bytes of a stream came, and so how fast. Pure: the first half of
 * them, which empties token buckets, does not count. */
#ifndef BOOTSTRAP_ARRIVALS_H
#define BOOTSTRAP_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>

enum { ARRIVALS_MAX = 1024, ARRIVALS_GRAIN = 16384 };

struct arrivals {
    size_t all, come; /* bytes: expected, a multiple of 2 GRAIN; until now */
    int n;
    struct arrival {
        double at;
        size_t bytes;
    } list[ARRIVALS_MAX];
};

bool arrivals_complete(const struct arrivals *);

/* In any order. Once the list is full, its last place takes the rest. */
void arrivals_add(struct arrivals *, double at, size_t bytes);

/* After the last one, before the questions. */
void arrivals_sort(struct arrivals *);

/* Bytes per second; 0: unknown. A stream that is not complete came slowly:
 * until now. */
double arrivals_rate(const struct arrivals *, double now);

/* Seconds per byte, without a pause for a window to open; 0: unknown. */
double arrivals_without_pause(const struct arrivals *);

#endif
