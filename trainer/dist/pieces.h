/* SPDX-License-Identifier: MIT */
/* What of the gradients travels together, and in which order: so that the next
 * forward begins when its first layers have their sums, and what later layers
 * need travels under it (P3, Jayarajan et al. 2019; ByteScheduler, Peng et al.
 * 2019). One link carries one piece after another.
 * The order is one for all ranks and fixed for a step, whatever is ready first:
 * collectives of one communicator must come in the same order everywhere. */
#ifndef TRAINER_DIST_PIECES_H
#define TRAINER_DIST_PIECES_H

#include <stdbool.h>
#include <stddef.h>

/* The gradients of a layer. Seconds of computation since the first gradient of
 * a step was there: until this one is, and until the next forward, which
 * follows at once, needs its weights. */
struct slice {
    size_t first, count; /* of the arena, in floats */
    double ready, needed;
};

struct piece {
    size_t first, count;
    double ready, needed; /* as those of slices */
    double seconds;       /* on its way; the caller's */
};

enum { PIECES_MOST = 1024 }; /* and as many more as there are slices */

struct pieces {
    struct piece *piece; /* in the order of the arena; together all of it */
    int *order;          /* in which they are sent */
    bool *sent;          /* room for pieces_by_need() */
    int n;
};

int pieces_open(struct pieces *, int nslices); /* -1: no memory */
void pieces_close(struct pieces *);

/* Cuts slices, which are given in the order of the arena: from the end, as many
 * of them as have that many floats, SIZE_MAX for all; with `splits` what is
 * larger comes in parts of about that many. Order: as they get ready. */
void pieces_cut(struct pieces *, const struct slice *, int nslices,
                size_t floats, bool splits);

/* The order that makes forward wait least, of two: as they get ready; and of
 * what is ready when the link is free that which is needed first, so the rest
 * of a long gradient waits for what comes later and is needed sooner. */
void pieces_by_need(struct pieces *);

/* Seconds that the next forward waits in all, in this order. */
double pieces_wait(const struct pieces *);

#endif
