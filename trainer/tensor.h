/* SPDX-License-Identifier: MIT */
/* Shapes, views and the arenas that own the floats. Notation: (N,C,H,W). */
#ifndef TRAINER_TENSOR_H
#define TRAINER_TENSOR_H

#include <stddef.h>

struct shape {
    int n, c, h, w; /* images, channels, rows, columns */
};

/* A view: never frees. x has n*c*h*w floats, w fastest. */
struct tensor {
    struct shape shape;
    float *x;
};

/* The only owner of floats; whole pages, zeroed. */
struct arena {
    float *x;
    size_t count;
};

static inline size_t shape_count(struct shape s)
{
    return (size_t)s.n * s.c * s.h * s.w;
}

int arena_alloc(struct arena *, size_t count); /* 0, or -1: no memory */
void arena_free(struct arena *);
size_t arena_bytes(size_t count); /* that an arena of so many floats has */

#endif
