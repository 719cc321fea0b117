/* SPDX-License-Identifier: MIT */
/* What moves.c times: the loads and stores of each collective. */
#ifndef MOVES_H
#define MOVES_H

#include "limit.h"
#include "traffic.h"

/* See moves.c. */
enum way { SLICES, WHOLE, NWAYS };

struct moves {
    const struct shared *shared;
    const struct measure *m;
    size_t count, lines; /* the call's; cache lines of S */
    enum way way;
    bool stream;
    int root; /* place */
    const char **src;
    char **dst;
};

/* The input and the output of a place. */
char *moves_in(const struct moves *, int place);
char *moves_out(const struct moves *, int place);

/* Where rank r's part of S begins, or ends where that of r + 1 does; of what
 * `mine` has. Cut at whole lines. */
size_t moves_part_begin(const struct moves *, int mine, int r);

void moves_copy(const struct moves *, char *to, const char *from, size_t bytes);

/* From all inputs, [at, at + bytes) of each, to the same place in some outputs:
 * of a place, or of all if it is negative. */
void moves_combine(struct moves *, size_t at, size_t bytes, int to);

/* What this rank does of one call, in v->way. */
typedef void move_function(struct moves *v);

/* move_whole.c: whole vectors. */
move_function move_allreduce, move_reduce, move_broadcast, move_sendrecv,
    move_pingpong;

/* move_parts.c: of each rank a part. */
move_function move_reduce_scatter, move_allgather, move_gather, move_scatter,
    move_alltoall;

#endif
