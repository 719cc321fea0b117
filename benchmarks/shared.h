/* SPDX-License-Identifier: MIT */
/* Memory that the ranks of one host share, mapped by this program without the
 * library's help: the limits must not depend on what is measured. */
#ifndef SHARED_H
#define SHARED_H

#include <stdatomic.h>

#include "job.h"

/* Two cache lines apart, as processors fetch lines in pairs. */
struct shared_line {
    _Alignas(128) _Atomic uint64_t sequence;
    uint64_t payload[7];
};

struct shared {
    int n, me;                 /* ranks of this host, and this one among them */
    int *rank_of;              /* of each of them */
    bool yields;               /* they have fewer CPUs than they are */
    struct shared_line *lines; /* two for each */
    char *vectors;             /* NULL: there was no room */
    size_t room;               /* bytes from one vector to the next */
    int per_rank;              /* vectors of each */
    void *map;
    size_t map_bytes;
};

/* Every rank calls it. False on every rank if it cannot be done on one. The
 * caller ends it with shared_unmap(). */
bool shared_map(struct shared *, const struct job *, size_t vector_bytes,
                int vectors_per_rank);
void shared_unmap(struct shared *);

/* Where a rank is among those of this host; 0, who stands for it, if it runs on
 * another. */
int shared_place(const struct shared *, int rank);

/* The v-th vector of the rank at this place; whole pages. */
char *shared_vector(const struct shared *, int place, int v);

#endif
