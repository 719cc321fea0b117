/* SPDX-License-Identifier: MIT */
/* Shapes, views and the arenas that own the floats. Notation: (N,C,H,W).
 *
 * Activations are blocked: (N, C/16, H, W, 16), 16 channels side by side, as
 * the kernels want them. Channels that fill up the last block are zero. A
 * matrix of images by numbers is the case H = W = 1: rows of C floats, filled
 * up. Only the images that come into a net may be plain, (N, C, H, W) with W
 * fastest.
 */
#ifndef TRAINER_TENSOR_H
#define TRAINER_TENSOR_H

#include <stddef.h>

enum { BLOCK = 16 }; /* channels side by side */

struct shape {
    int n, c, h, w; /* images, channels, rows, columns */
};

/* A view: never frees. x has shape_floats() floats, or half as many where
 * numbers are bf16, which the layers know. */
struct tensor {
    struct shape shape;
    float *x;
};

/* The only owner of floats; whole pages, zeroed. */
struct arena {
    float *x;
    size_t count;
};

/* Numbers that a shape has, as the user counts them. */
static inline size_t shape_count(struct shape s)
{
    return (size_t)s.n * s.c * s.h * s.w;
}

static inline int shape_blocks(struct shape s)
{
    return (s.c + BLOCK - 1) / BLOCK;
}

static inline size_t shape_plane(struct shape s)
{
    return (size_t)s.h * (size_t)s.w;
}

/* Floats of an image that is blocked, and of all of them. */
static inline size_t image_floats(struct shape s)
{
    return (size_t)shape_blocks(s) * BLOCK * shape_plane(s);
}

static inline size_t shape_floats(struct shape s)
{
    return (size_t)s.n * image_floats(s);
}

/* Where an image has channel c at position p = row * w + column. */
static inline size_t blocked_index(struct shape s, int c, size_t p)
{
    return ((size_t)(c / BLOCK) * shape_plane(s) + p) * BLOCK
           + (size_t)(c % BLOCK);
}

int arena_alloc(struct arena *, size_t count); /* 0, or -1: no memory */
void arena_free(struct arena *);
size_t arena_bytes(size_t count); /* that an arena of so many floats has */

#endif
